"""Applying the fixes of diagnostics to texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dsl.diagnostics import Diagnostic, Edit, Fix
from dsl.source import Source


def safe_fixes(diagnostics: Iterable[Diagnostic], may_edit: Callable[[Source], bool]) -> tuple[Fix, ...]:
    """Return the safe fixes that can be applied together.

    Of fixes that touch the same part of a text, only the first is returned: the others are found when the
    text is read again. A fix is applied whole or not at all.

    Args:
        diagnostics: The diagnostics.
        may_edit: Whether a text may be edited.
    """
    taken: dict[Source, list[Edit]] = {}
    fixes = []
    for each in diagnostics:
        if each.fix is None or each.fix.applicability != "safe" or not each.fix.edits:
            continue
        edits = each.fix.edits
        if any(_overlaps(edit, taken.get(edit.span.source, [])) for edit in edits):
            continue
        if not all(may_edit(edit.span.source) for edit in edits):
            continue
        for edit in edits:
            taken.setdefault(edit.span.source, []).append(edit)
        fixes.append(each.fix)
    return tuple(fixes)


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text after some edits, none of which overlap.

    Args:
        text: The text for which the spans of the edits are.
        edits: The edits, in any order.
    """
    for edit in sorted(edits, key=lambda each: each.span.start, reverse=True):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text


def _overlaps(edit: Edit, others: list[Edit]) -> bool:
    """Whether `edit` touches what one of `others` does; two insertions at one place touch."""
    start, end = edit.span.start, edit.span.end
    return any(start <= other.span.end and other.span.start <= end for other in others)
