"""Diagnostics with one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.formats.cells import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.diagnostics import Diagnostic


def concise(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield `path:line:col: error[CODE] message` for each diagnostic, shorter if it has no span."""
    for each in diagnostics:
        place = "" if each.file is None else f"{visible(each.file)}: "
        if each.span is not None:
            at = each.span.begin
            place = f"{visible(each.span.source.name)}:{at.line}:{at.column}: "
        yield f"{place}{each.severity.value}[{each.code}] {visible(each.message)}"
