"""Diagnostics as programs read them: one line each, JSON, workflow commands and SARIF."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given

from dsl.diagnostics import Edit, Fix, Label
from dsl.formats.render import render
from dsl.source import Source, Span
from tests.dsl.formats.faults import ENDS, NO_GPU, anywhere, at, error, texts

SCHEMA = json.loads(Path(__file__).with_name("sarif_subset.json").read_text(encoding="utf-8"))
OFFICIAL = jsonschema.Draft4Validator(
    json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
)


def test_concise() -> None:
    """One line each: place, severity, code, message."""
    assert render([NO_GPU, error("no place")], "concise") == (
        "train.tfdeploy:16:20: error[TFD402] `gpu[7]` does not exist\nerror[TFD402] no place\n"
    )


def test_json() -> None:
    """The envelope holds counts and, for each, both ends of every place."""
    source = Source("a.tfdeploy", "é = 1\nx = 2\n")
    fix = Fix("rename it", (Edit(at(source, "x"), "y"),), "safe")
    span = {"start": {"line": 2, "column": 1, "offset": 6}, "end": {"line": 2, "column": 2, "offset": 7}}
    first = {"start": {"line": 1, "column": 1, "offset": 0}, "end": {"line": 1, "column": 2, "offset": 1}}
    diagnostic = error(
        "bad",
        at(source, "x"),
        "this",
        labels=(Label(at(source, "é"), "that"),),
        notes=("a",),
        help="b",
        fix=fix,
    )
    assert json.loads(render([diagnostic], "json")) == {
        "format_version": "1.0",
        "valid": False,
        "error_count": 1,
        "warning_count": 0,
        "diagnostics": [
            {
                "severity": "error",
                "code": "TFD402",
                "name": "no-such-device",
                "message": "bad",
                "path": "a.tfdeploy",
                "range": span,
                "text": "this",
                "labels": [{"path": "a.tfdeploy", "range": first, "text": "that"}],
                "notes": ["a"],
                "help": "b",
                "fix": {
                    "title": "rename it",
                    "applicability": "safe",
                    "edits": [{"path": "a.tfdeploy", "range": span, "replacement": "y"}],
                },
            }
        ],
    }
    assert json.loads(render([error("no place")], "json"))["diagnostics"][0]["range"] is None


def test_github() -> None:
    """A workflow command a diagnostic, with what would end it escaped."""
    source = Source("dir/a,b:c.tfdeploy", "x = {\n}\n")
    tall = error("two lines", Span(source, 0, 7))
    assert render([error("100 %\nmore", at(source, "x"), help="do"), tall, error("no place")], "github") == (
        "::error file=dir/a%2Cb%3Ac.tfdeploy,line=1,endLine=1,col=1,endColumn=2,title=TFD402 no-such-device"
        "::100 %25%0Amore%0Ahelp: do\n"
        "::error file=dir/a%2Cb%3Ac.tfdeploy,line=1,endLine=2,title=TFD402 no-such-device::two lines\n"
        "::error title=TFD402 no-such-device::no place\n"
    )


def test_sarif_is_valid_and_points_at_every_place() -> None:
    """A log keeps to the standard's rules and holds place, second place and fix of a diagnostic."""
    source = Source("my specs/a.tfdeploy", "x = 1\ny = 2\n")
    fix = Fix("rename it", (Edit(at(source, "x"), "z"),), "safe")
    labelled = error("bad", at(source, "x"), labels=(Label(at(source, "y"), "that"),), fix=fix, help="do")
    log = json.loads(render([labelled, error("no place")], "sarif"))
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    run = log["runs"][0]
    assert run["tool"]["driver"]["rules"] == [
        {
            "id": "TFD402",
            "name": "no-such-device",
            "shortDescription": {"text": "a device that is not among the declared ones"},
        }
    ]
    region = {
        "startLine": 1,
        "startColumn": 1,
        "endLine": 1,
        "endColumn": 2,
        "charOffset": 0,
        "charLength": 1,
    }
    where = {"uri": "my%20specs/a.tfdeploy"}
    assert run["results"][0] == {
        "ruleId": "TFD402",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": "bad\nhelp: do"},
        "locations": [{"physicalLocation": {"artifactLocation": where, "region": region}}],
        "relatedLocations": [
            {
                "id": 0,
                "physicalLocation": {
                    "artifactLocation": where,
                    "region": {**region, "startLine": 2, "endLine": 2, "charOffset": 6},
                },
                "message": {"text": "that"},
            }
        ],
        "fixes": [
            {
                "description": {"text": "rename it"},
                "artifactChanges": [
                    {
                        "artifactLocation": where,
                        "replacements": [{"deletedRegion": region, "insertedContent": {"text": "z"}}],
                    }
                ],
            }
        ],
    }
    assert "locations" not in run["results"][1]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", "2.0"),
        ("runs.0.columnKind", "bytes"),
        ("runs.0.results.0.level", "fatal"),
        ("runs.0.results.0.locations.0.physicalLocation.artifactLocation.uri", "my specs"),
        ("runs.0.results.0.locations.0.physicalLocation.region.startLine", 0),
    ],
)
def test_subset_of_the_sarif_schema_refuses_what_is_wrong(path: str, value: object) -> None:
    """The schema that the test above trusts does refuse a log that breaks the standard."""
    log = json.loads(render([NO_GPU], "sarif"))
    *way, last = path.split(".")
    inner = log
    for step in way:
        inner = inner[int(step) if step.isdigit() else step]
    assert last in inner
    inner[last] = value
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(log)


@given(texts(), ENDS)
def test_any_spans_in_any_text_make_valid_logs(text: str, ends: list[tuple[int, int]]) -> None:
    """No text and no set of spans breaks the rules of a format that programs read."""
    diagnostic = anywhere(text, ends)
    log = json.loads(render([diagnostic], "sarif"))
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    OFFICIAL.validate(log)
    for name in ("concise", "github"):
        assert len(render([diagnostic], name).splitlines()) == 1


def test_logs_follow_the_published_schema() -> None:
    """SARIF output is valid by the schema of 2.1.0, with places, labels and fixes; a broken log is not."""
    source = Source("a.tfdeploy", "x = 2\ny = x\n")
    fix = Fix("rename it", (Edit(at(source, "x"), "z"),), "safe")
    label = Label(at(source, "y"), "here too")
    log = json.loads(render([error("m", at(source, "x"), fix=fix, labels=(label,)), NO_GPU], "sarif"))
    OFFICIAL.validate(log)
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not OFFICIAL.is_valid(log)
