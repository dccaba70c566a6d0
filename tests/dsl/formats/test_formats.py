"""Diagnostics as programs read them: one line each, JSON, workflow commands and SARIF."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given

from dsl.diagnostics import Edit, Fix, Label
from dsl.formats.render import render
from dsl.source import Source
from tests.dsl.formats.faults import ENDS, NO_GPU, anywhere, at, error, texts

SCHEMA = json.loads(Path(__file__).with_name("sarif_subset.json").read_text(encoding="utf-8"))
OFFICIAL = jsonschema.Draft4Validator(
    json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
)


PLACES = Source("my specs/a,b:c.tfdeploy", "é = 1\nx = {\n}\n")
ALL = [
    NO_GPU,
    error(
        "bad",
        at(PLACES, "x"),
        "this",
        labels=(Label(at(PLACES, "é"), "that"),),
        notes=("a",),
        help="b",
        fix=Fix("rename it", (Edit(at(PLACES, "x"), "y"),), "safe"),
    ),
    error("100 %\nmore", at(PLACES, "{\n}"), help="do"),
    error("no place"),
]


@pytest.mark.parametrize("name", ["concise", "github", "json", "sarif"])
def test_every_format_has_all_that_it_can_say(name: str, golden: Callable[[str, str], None]) -> None:
    """Places with both ends, labels, notes, help and fixes, with what would end a field escaped."""
    golden(f"render/all.{name}", render(ALL, name))


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
    log = json.loads(render(ALL, "sarif"))
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    OFFICIAL.validate(log)
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not OFFICIAL.is_valid(log)
