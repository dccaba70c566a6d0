"""Diagnostics as JSON: counts, and the diagnostics with their places."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic, Fix
    from dsl.source import Position, Span

FORMAT_VERSION = "1.0"


def envelope(found: Sequence[Diagnostic], shown: Sequence[Diagnostic]) -> str:
    """Return the JSON text.

    Args:
        found: All diagnostics, which are counted.
        shown: The diagnostics that are included.
    """
    errors = sum(each.is_error for each in found)
    content = {
        "format_version": FORMAT_VERSION,
        "valid": errors == 0,
        "error_count": errors,
        "warning_count": len(found) - errors,
        "diagnostics": [_diagnostic(each) for each in shown],
    }
    return json.dumps(content, indent=2) + "\n"


def _diagnostic(each: Diagnostic) -> dict[str, Any]:
    return {
        "severity": each.severity.value,
        "code": each.code,
        "name": each.name,
        "message": each.message,
        **_place(each.span),
        "path": each.path,
        "text": each.text,
        "labels": [{**_place(label.span), "text": label.text} for label in each.labels],
        "notes": list(each.notes),
        "help": each.help,
        "fix": None if each.fix is None else _fix(each.fix),
    }


def _place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"path": None, "range": None}
    return {
        "path": span.source.name,
        "range": {"start": _position(span.begin), "end": _position(span.finish)},
    }


def _position(at: Position) -> dict[str, int]:
    return {"line": at.line, "column": at.column, "offset": at.offset}


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "applicability": fix.applicability,
        "edits": [{**_place(edit.span), "replacement": edit.replacement} for edit in fix.edits],
    }
