"""Renders diagnostics in any of the formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import MAX_SHOWN, Diagnostic
from dsl.formats.cells import visible
from dsl.formats.human import human
from dsl.formats.programs import envelope, github, sarif

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


FORMATS = ("human", "concise", "json", "github", "sarif")


def render(diagnostics: Iterable[Diagnostic], format: str = "human", *, color: bool = False) -> str:  # noqa: A002
    """Return diagnostics as text.

    At most MAX_SHOWN are rendered; the human format ends with the number of all.

    Args:
        diagnostics: The diagnostics.
        format: One of FORMATS.
        color: Whether to use terminal colours, in the human format.

    Returns:
        The text. Without diagnostics it is empty, or an empty log for the formats that have one.
    """
    found = list(diagnostics)
    shown = found[:MAX_SHOWN]
    if format == "human":
        if not found:
            return ""
        return "\n".join([*human(shown, color=color), f"{summary(found)}\n{_where_more_is_told(shown)}\n"])
    if format == "concise":
        return "".join(f"{line}\n" for line in concise(shown))
    if format == "json":
        return envelope(found, shown)
    if format == "github":
        return "".join(f"{line}\n" for line in github(shown))
    if format == "sarif":
        return sarif(shown)
    raise ValueError(f"there is no format {format!r}")


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """Return a sentence with the numbers of errors and warnings, shown ones and fixable ones."""
    errors = sum(each.is_error for each in diagnostics)
    warnings = len(diagnostics) - errors
    counts = [_count(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number]
    text = ", ".join(counts) or "no errors"
    if len(diagnostics) > MAX_SHOWN:
        text += f" (the first {MAX_SHOWN} are shown)"
    fixable = sum(each.fix is not None and each.fix.applicability == "safe" for each in diagnostics)
    if fixable:
        text += f"; `tfdeploy check --fix` mends {fixable}"
    return text


def _where_more_is_told(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the last line of a report: the command that explains the first error or warning."""
    first = next((each for each in diagnostics if each.is_error), diagnostics[0])
    return f"`tfdeploy explain {first.code}` says more" + (" about it" if len(diagnostics) == 1 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def concise(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield `path:line:col: error[CODE] message` for each diagnostic, shorter if it has no span."""
    for each in diagnostics:
        place = "" if each.file is None else f"{visible(each.file)}: "
        if each.span is not None:
            at = each.span.begin
            place = f"{visible(each.span.source.name)}:{at.line}:{at.column}: "
        yield f"{place}{each.severity.value}[{each.code}] {visible(each.message)}"
