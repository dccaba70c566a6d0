"""From the text of a spec to its meaning. `read` collects what is wrong, `load` raises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsl.diagnostics import Diagnostics, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dsl import ir
    from dsl.source import Source


@frozen
class Reading:
    """What became of a spec: its meaning, None where errors keep it from having one, and all that was found.

    `diagnostics` are sorted by place: those of the spec first, then of what it includes, then of `--set`.
    `sources` are the texts that were read, in that order.
    """

    spec: ir.Spec | None
    diagnostics: Diagnostics
    sources: tuple[Source, ...]


def read(
    path: str | Path,
    overrides: Sequence[tuple[str, str]] = (),
    *,
    text: str | None = None,
    allow_python: bool = False,
) -> Reading:
    """Read the spec in the file `path`, or in `text` where it is given; never raises for a bad spec.

    `overrides` are paths with values, as in `("clones.count", "4")`; the last one for a path wins.
    `python(...)` in the spec is an error unless `allow_python`.
    """
    from grammar import reading

    return reading.read(str(path), tuple(overrides), text, allow_python=allow_python)


def load(
    path: str | Path,
    overrides: Sequence[tuple[str, str]] = (),
    allow_python: bool = False,
) -> ir.Spec:
    """Return the spec in the file `path`; raises SpecError with its diagnostics where it has errors."""
    found = read(path, overrides, allow_python=allow_python)
    if found.spec is None:
        raise SpecError(each for each in found.diagnostics if each.is_error)
    return found.spec


__all__ = ["Reading", "load", "read"]
