"""`check --fix`: applying the safe fixes of diagnostics to the files that they point into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.files.regular import read_text
from dsl.fixes import edited, safe_fixes
from tfdeploy.cli.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsl.diagnostics import Diagnostic, Edit
    from dsl.source import Source


def apply_safe(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Rewrite the files that safe fixes edit; return how many fixes each file took, by its name."""
    taken: dict[Source, list[Edit]] = {}
    counts: dict[str, int] = {}
    for fix in safe_fixes(diagnostics, _is_file):
        for edit in fix.edits:
            taken.setdefault(edit.span.source, []).append(edit)
        name = fix.edits[0].span.source.name
        counts[name] = counts.get(name, 0) + 1
    for source, edits in taken.items():
        replace_file(source.name, edited(source.text, edits))
    return counts


def _is_file(source: Source) -> bool:
    """Whether `source` is a file that still holds what was read from it."""
    try:
        return read_text(source.name).removeprefix("\ufeff") == source.text
    except (OSError, UnicodeDecodeError):
        return False
