"""The spec as it ran, as a spec that can be run again from any folder, because its paths are absolute.

Modules of `python(...)` are an exception: they are searched beside a spec and among the installed modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, fields, has

from compiler.model.elaborate import is_read_here
from dsl import ir
from dsl.files.regular import absolute, matches
from dsl.schema.data_functions import FILES
from dsl.schema.signatures import STATES, named_arguments
from grammar.lower.network.flows import APPLICATIONS
from grammar.unparse import unparse


def effective_text(spec: ir.Spec, directory: Path | None = None) -> str:
    """Return the text of the spec with includes, constants, overrides, defaults and absolute paths."""
    base = Path(spec.path).parent.absolute()
    where = spec.train.directory if spec.train.directory is not None else directory
    found = with_paths(
        spec, lambda path: absolute(base, path), None if where is None else str(Path(where).absolute())
    )
    return unparse(found)


def with_paths(spec: ir.Spec, moved: Callable[[str], str], directory: str | None) -> ir.Spec:
    """Return the spec with other paths."""
    train, base = spec.train, Path(spec.path).parent
    weights = None if train.weights is None else moved(train.weights)
    starts = _moved(train.part_weights, moved, base)
    train = evolve(train, directory=directory, weights=weights, part_weights=starts)
    parts = {name: _moved(getattr(spec, name), moved, base) for name in ("data", "model", "layers")}
    return evolve(spec, train=train, **parts)


def _moved(part: Any, moved: Callable[[str], str], base: Path) -> Any:
    """Return a part of a spec with its paths moved."""
    if isinstance(part, tuple):
        return tuple(_moved(each, moved, base) for each in part)
    if isinstance(part, Mapping):
        return {key: _moved(each, moved, base) for key, each in part.items()}
    if isinstance(part, ir.Split):
        return evolve(part, source=_source(part.source, moved))
    if not has(type(part)):
        return part
    inner = {
        each.name: _moved(getattr(part, each.name), moved, base) for each in fields(type(part)) if each.eq
    }
    if isinstance(part, ir.PartWeights):
        inner["file"] = moved(part.file)
    elif isinstance(part, ir.Call):
        inner["kwargs"] = {
            key: moved(each) if key == "weights" and _is_file(part, each, base) else each
            for key, each in inner["kwargs"].items()
        }
        words = named_arguments(part).get("vocabulary") if part.name in STATES else None
        if isinstance(words, str):
            inner["args"] = tuple(moved(words) if each is words else each for each in part.args)
            inner["kwargs"] |= {"vocabulary": moved(words)} if "vocabulary" in part.kwargs else {}
    return evolve(part, **inner)


def _is_file(call: ir.Call, weights: object, base: Path) -> bool:
    """Whether the `weights` of a step are a file. Those of an application may be the name of a collection."""
    if not isinstance(weights, str):
        return False
    return not call.name.startswith(APPLICATIONS) or is_read_here(weights) or (base / weights).is_file()


def files_of(spec: ir.Spec) -> list[Path]:
    """Return the existing files of data and weights that a spec names, with globs expanded."""
    base = Path(spec.path).parent
    found: list[Path] = []

    def note(path: str) -> str:
        found.extend(filter(Path.is_file, matches(base, path)))
        return path

    with_paths(spec, note, None)
    return found


def _source(source: ir.Call, moved: Callable[[str], str]) -> ir.Call:
    names = FILES[source.name]
    args = [_files(each, moved) if at < len(names) else each for at, each in enumerate(source.args)]
    kwargs = {key: _files(each, moved) if key in names else each for key, each in source.kwargs.items()}
    return evolve(source, args=tuple(args), kwargs=kwargs)


def _files(value: ir.Value, moved: Callable[[str], str]) -> ir.Value:
    if isinstance(value, str):
        return moved(value)
    return tuple(_files(each, moved) for each in value) if isinstance(value, tuple) else value
