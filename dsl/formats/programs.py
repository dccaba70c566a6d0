"""Diagnostics for programs: as JSON, in SARIF, and as workflow commands of GitHub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from dsl.codes import CODES
from dsl.diagnostics import Diagnostic, Fix, Label
from dsl.formats.cells import visible
from dsl.source import Position, Span


def _said(each: Diagnostic) -> str:
    """Return the message with notes and help on lines of their own."""
    notes = [f"note: {note}" for note in each.notes]
    return "\n".join([each.message, *notes, *([f"help: {each.help}"] if each.help else [])])


# --- JSON: counts, and the diagnostics with their places --------------------------------------------------

FORMAT_VERSION = "1.0"


def envelope(found: Sequence[Diagnostic], shown: Sequence[Diagnostic]) -> str:
    """Return the JSON text."""
    errors = sum(each.is_error for each in found)
    content = {
        "format_version": FORMAT_VERSION,
        "valid": errors == 0,
        "error_count": errors,
        "warning_count": len(found) - errors,
        "diagnostics": [_json_diagnostic(each) for each in shown],
    }
    return json.dumps(content, indent=2) + "\n"


def _json_diagnostic(each: Diagnostic) -> dict[str, Any]:
    return {
        "severity": each.severity.value,
        "code": each.code,
        "name": each.name,
        "message": each.message,
        **_json_place(each.span),
        "path": each.path,
        "text": each.text,
        "labels": [{**_json_place(label.span), "text": label.text} for label in each.labels],
        "notes": list(each.notes),
        "help": each.help,
        "fix": None if each.fix is None else _json_fix(each.fix),
    }


def _json_place(span: Span | None) -> dict[str, Any]:
    if span is None:
        return {"path": None, "range": None}
    return {
        "path": span.source.name,
        "range": {"start": _json_position(span.begin), "end": _json_position(span.finish)},
    }


def _json_position(at: Position) -> dict[str, int]:
    return {"line": at.line, "column": at.column, "offset": at.offset}


def _json_fix(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "applicability": fix.applicability,
        "edits": [{**_json_place(edit.span), "replacement": edit.replacement} for edit in fix.edits],
    }


# --- SARIF 2.1.0 (OASIS, 2020), which code hosts and editors read -----------------------------------------

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
    result: dict[str, Any] = {
        "ruleId": each.code,
        "ruleIndex": rule,
        "level": each.severity.value,
        "message": {"text": _said(each)},
    }
    if each.span is not None:
        result["locations"] = [{"physicalLocation": _physical(each.span)}]
    elif each.file is not None:
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": _uri(each.file)}}}]
    if each.labels:
        result["relatedLocations"] = [_related(number, label) for number, label in enumerate(each.labels)]
    if each.fix is not None and each.fix.edits:
        result["fixes"] = [_sarif_fix(each.fix)]
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


def _sarif_fix(fix: Fix) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        changes.setdefault(_uri(edit.span.source.name), []).append(
            {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.replacement}}
        )
    replacements = [
        {"artifactLocation": {"uri": uri}, "replacements": edits} for uri, edits in changes.items()
    ]
    return {"description": {"text": fix.title}, "artifactChanges": replacements}


# --- commands of GitHub Actions, which GitHub shows next to the changed lines -----------------------------


def github(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield a workflow command for each diagnostic; notes and help follow the message on separate lines."""
    for each in diagnostics:
        properties = [("title", f"{each.code} {each.name}")]
        if each.file is not None:
            properties.insert(0, ("file", each.file))
        if each.span is not None:
            begin, finish = each.span.begin, each.span.finish
            place = [("file", each.span.source.name), ("line", begin.line), ("endLine", finish.line)]
            if begin.line == finish.line:  # columns are shown only for what is on one line
                place += [("col", begin.column), ("endColumn", finish.column)]
            properties = [(key, str(value)) for key, value in place] + properties[-1:]
        settings = ",".join(f"{key}={_property(value)}" for key, value in properties)
        yield visible(f"::{each.severity.value} {settings}::{_data(_said(each))}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
