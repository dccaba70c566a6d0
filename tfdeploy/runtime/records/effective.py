"""The spec as it ran, as a spec that can be run again from any folder, because its paths are absolute.

Modules of `python(...)` are an exception: they are searched beside a spec and among the installed modules.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from grammar.unparse import unparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl import ir

FILES: dict[str, tuple[str, ...]] = {
    "csv": ("path",),
    "npz": ("path",),
    "tfrecord": ("path",),
    "images": ("path",),
    "cifar10": ("path",),
    "mnist": ("images", "labels"),
}
"""The arguments of each source that name files. They are its first arguments."""


def effective_text(spec: ir.Spec, directory: Path | None = None) -> str:
    """Return the text of the spec with includes, constants, overrides and defaults filled in.

    Args:
        spec: The spec. Relative paths start from its folder.
        directory: The run directory if the spec does not give one.

    Returns:
        The text, in which all paths are absolute.
    """
    base = Path(spec.path).parent.absolute()
    where = spec.train.directory if spec.train.directory is not None else directory
    found = with_paths(
        spec, lambda path: str(base / path), None if where is None else str(Path(where).absolute())
    )
    return unparse(found)


def with_paths(spec: ir.Spec, moved: Callable[[str], str], directory: str | None) -> ir.Spec:
    """Return the spec with other paths.

    Args:
        spec: The spec.
        moved: Returns the new path for each path to a file of data or weights.
        directory: The new run directory.
    """
    weights = None if spec.train.weights is None else moved(spec.train.weights)
    train = evolve(spec.train, directory=directory, weights=weights)
    return evolve(spec, train=train, data=_data(spec.data, moved))


def files_of(spec: ir.Spec) -> list[Path]:
    """Return the existing files of data and weights that a spec names, with globs expanded."""
    base = Path(spec.path).parent
    named: list[str] = []

    def note(path: str) -> str:
        named.append(path)
        return path

    with_paths(spec, note, None)
    found: list[Path] = []
    for each in named:
        path = base / each
        matches = [path] if path.exists() else map(Path, glob.glob(str(path)))  # noqa: PTH207 absolute ones too
        found += [match for match in matches if match.is_file()]
    return found


def _data(data: ir.Data | None, moved: Callable[[str], str]) -> ir.Data | None:
    if data is None:
        return None
    return evolve(
        data,
        train=_split(data.train, moved),
        validation=_split(data.validation, moved),
        test=_split(data.test, moved),
    )


def _split(split: ir.Split | None, moved: Callable[[str], str]) -> ir.Split | None:
    if split is None:
        return None
    source = split.source
    names = FILES.get(source.name, ())
    args = [_moved(each, moved) if at < len(names) else each for at, each in enumerate(source.args)]
    kwargs = {key: _moved(each, moved) if key in names else each for key, each in source.kwargs.items()}
    return evolve(split, source=evolve(source, args=tuple(args), kwargs=kwargs))


def _moved(value: ir.Value, moved: Callable[[str], str]) -> ir.Value:
    if isinstance(value, str):
        return moved(value)
    return tuple(_moved(each, moved) for each in value) if isinstance(value, tuple) else value
