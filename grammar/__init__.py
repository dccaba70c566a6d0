"""Reading specs: `read` returns a spec with all diagnostics, `load` raises an exception for errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsl.diagnostics import Diagnostics, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dsl import ir, syntax
    from dsl.source import Source


@frozen
class Reading:
    """The result of reading a spec.

    Attributes:
        spec: The spec, or None if there are errors.
        diagnostics: All diagnostics, sorted by place: those of the spec first, then of included files, then
            of `--set`.
        sources: The texts that were read, in the same order.
        trees: The syntax trees of the files that could be parsed, that of the spec itself first.
    """

    spec: ir.Spec | None
    diagnostics: Diagnostics
    sources: tuple[Source, ...]
    trees: tuple[syntax.File, ...] = ()


def read(
    path: str | Path,
    overrides: Sequence[tuple[str, str]] = (),
    *,
    text: str | None = None,
    texts: Mapping[str, str] | None = None,
    allow_python: bool = False,
) -> Reading:
    """Read a spec. A bad spec never raises an exception.

    Args:
        path: The file.
        overrides: Paths and values, such as `("clones.count", "4")`. The last value for a path applies.
        text: The text to read instead of the file.
        texts: The texts to read instead of included files, by the absolute paths of these; an editor has
            texts that are not saved yet.
        allow_python: Whether `python(...)` is allowed in the spec.

    Returns:
        The spec, if it has no errors, and its diagnostics.
    """
    from grammar import stages

    return stages.read(str(path), tuple(overrides), text, texts or {}, allow_python=allow_python)


def load(
    path: str | Path,
    overrides: Sequence[tuple[str, str]] = (),
    allow_python: bool = False,
) -> ir.Spec:
    """Read a spec and return it.

    Args:
        path: The file.
        overrides: Paths and values, as in `read`.
        allow_python: Whether `python(...)` is allowed in the spec.

    Raises:
        SpecError: If the spec has errors; the exception has their diagnostics.
    """
    found = read(path, overrides, allow_python=allow_python)
    if found.spec is None:
        raise SpecError(each for each in found.diagnostics if each.is_error)
    return found.spec


__all__ = ["Reading", "load", "read"]
