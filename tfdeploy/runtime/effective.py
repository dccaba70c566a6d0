"""The spec as it ran, as a spec that can be run again from anywhere: it names its files by absolute paths.

Modules of `python(...)` are the exception; they are looked up beside a spec, or among the installed ones.
"""

from __future__ import annotations

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
"""The arguments of each source that name files, which are its first ones."""


def effective_text(spec: ir.Spec, directory: Path | None = None) -> str:
    """Return the spec with includes, constants, overrides and defaults filled in, its paths made absolute.

    `directory` is the run directory where the spec leaves that open.
    """
    base = Path(spec.path).parent.absolute()

    def beside(path: str) -> str:
        return str(base / path)

    train = spec.train
    where = train.directory if train.directory is not None else directory
    train = evolve(
        train,
        directory=None if where is None else str(Path(where).absolute()),
        weights=None if train.weights is None else beside(train.weights),
    )
    return unparse(evolve(spec, train=train, data=_data(spec.data, beside)))


def _data(data: ir.Data | None, beside: Callable[[str], str]) -> ir.Data | None:
    if data is None:
        return None
    return evolve(
        data,
        train=_split(data.train, beside),
        validation=_split(data.validation, beside),
        test=_split(data.test, beside),
    )


def _split(split: ir.Split | None, beside: Callable[[str], str]) -> ir.Split | None:
    if split is None:
        return None
    source = split.source
    names = FILES.get(source.name, ())
    args = [_moved(each, beside) if at < len(names) else each for at, each in enumerate(source.args)]
    kwargs = {key: _moved(each, beside) if key in names else each for key, each in source.kwargs.items()}
    return evolve(split, source=evolve(source, args=tuple(args), kwargs=kwargs))


def _moved(value: ir.Value, beside: Callable[[str], str]) -> ir.Value:
    if isinstance(value, str):
        return beside(value)
    return tuple(_moved(each, beside) for each in value) if isinstance(value, tuple) else value
