"""Diagnostics in SARIF 2.1.0 (OASIS, 2020), which code hosts and editors read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dsl.codes import CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.diagnostics import Diagnostic, Fix, Label
    from dsl.source import Span

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """Return a SARIF log with one run and a rule for each code that occurs; columns count code points."""
    codes = sorted({each.code for each in diagnostics})
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "tfdeploy", "rules": [_rule(code) for code in codes]}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(each, codes.index(each.code)) for each in diagnostics],
            }
        ],
    }
    return json.dumps(log, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    return {"id": code, "name": CODES[code].name, "shortDescription": {"text": CODES[code].title}}


def _result(each: Diagnostic, rule: int) -> dict[str, Any]:
    lines = [each.message, *(f"note: {note}" for note in each.notes)]
    if each.help:
        lines.append(f"help: {each.help}")
    result: dict[str, Any] = {
        "ruleId": each.code,
        "ruleIndex": rule,
        "level": each.severity.value,
        "message": {"text": "\n".join(lines)},
    }
    if each.span is not None:
        result["locations"] = [{"physicalLocation": _physical(each.span)}]
    elif each.file is not None:
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": _uri(each.file)}}}]
    if each.labels:
        result["relatedLocations"] = [_related(number, label) for number, label in enumerate(each.labels)]
    if each.fix is not None and each.fix.edits:
        result["fixes"] = [_fix(each.fix)]
    return result


def _physical(span: Span) -> dict[str, Any]:
    return {"artifactLocation": {"uri": _uri(span.source.name)}, "region": _region(span)}


def _uri(path: str) -> str:
    return quote(path.replace("\\", "/"), safe="/-._~", errors="surrogateescape")


def _region(span: Span) -> dict[str, int]:
    begin, finish = span.begin, span.finish
    return {
        "startLine": begin.line,
        "startColumn": begin.column,
        "endLine": finish.line,
        "endColumn": finish.column,
        "charOffset": begin.offset,
        "charLength": finish.offset - begin.offset,
    }


def _related(number: int, label: Label) -> dict[str, Any]:
    return {
        "id": number,
        "physicalLocation": _physical(label.span),
        "message": {"text": label.text or "here"},
    }


def _fix(fix: Fix) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        changes.setdefault(_uri(edit.span.source.name), []).append(
            {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.replacement}}
        )
    return {"description": {"text": fix.title}, "artifactChanges": _changes(changes.items())}


def _changes(changes: Iterable[tuple[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    return [{"artifactLocation": {"uri": uri}, "replacements": edits} for uri, edits in changes]
