"""`check --fix`: applying the safe fixes of diagnostics to the files that they point into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.files.regular import read_text
from tfdeploy.cli.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsl.diagnostics import Diagnostic, Edit
    from dsl.source import Source


def apply_safe(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Rewrite the files that safe fixes edit; return how many fixes each file took, by its name.

    Of fixes that touch the same stretch only the first is applied: what is left shows when the file is read
    again. A fix is applied whole or not at all.
    """
    taken: dict[Source, list[Edit]] = {}
    counts: dict[str, int] = {}
    for each in diagnostics:
        if each.fix is None or each.fix.applicability != "safe" or not each.fix.edits:
            continue
        edits = each.fix.edits
        if any(_overlaps(edit, taken.get(edit.span.source, [])) for edit in edits):
            continue
        if not all(_is_file(edit.span.source) for edit in edits):
            continue
        for edit in edits:
            taken.setdefault(edit.span.source, []).append(edit)
        name = edits[0].span.source.name
        counts[name] = counts.get(name, 0) + 1
    for source, edits_of_source in taken.items():
        replace_file(source.name, _edited(source.text, edits_of_source))
    return counts


def _overlaps(edit: Edit, others: list[Edit]) -> bool:
    """Whether `edit` touches what one of `others` does; two insertions at one place touch."""
    start, end = edit.span.start, edit.span.end
    return any(start <= other.span.end and other.span.start <= end for other in others)


def _is_file(source: Source) -> bool:
    """Whether `source` is a file that still holds what was read from it."""
    try:
        return read_text(source.name).removeprefix("\ufeff") == source.text
    except (OSError, UnicodeDecodeError):
        return False


def _edited(text: str, edits: list[Edit]) -> str:
    for edit in sorted(edits, key=lambda each: each.span.start, reverse=True):
        text = text[: edit.span.start] + edit.replacement + text[edit.span.end :]
    return text
