"""JSON read by the types of a record: whatever is wrong with a text is said, and never raised as it comes."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import field, frozen

from dsl.files.typed_json import NAME, BadRecord, Count, Digits, Measured, parse_record, read_record


@frozen
class Inner:
    """A record in a record."""

    text: str
    source: str = field(default="", metadata={NAME: "from"})


@frozen
class Whole:
    """A record with a field of every type."""

    step: Count
    rate: float | None
    scores: Mapping[str, Measured]
    parts: tuple[Inner, ...] = ()
    kind: Literal["a", "b"] = "a"
    index: Digits = 0
    flag: bool = False


GOOD: dict[str, Any] = {"step": 3, "rate": 1, "scores": {"s3cret": None, "b": 2}}


def test_a_record_is_read_by_its_types() -> None:
    """Whole numbers serve as floats, null as NaN, digits as a number; unknown fields are passed over."""
    more = {"parts": [{"text": "ö", "from": "here"}], "kind": "b", "index": "7", "flag": True, "later": {}}
    found = parse_record(json.dumps(GOOD | more), Whole)
    assert math.isnan(found.scores["s3cret"])
    assert (found.step, found.rate, found.scores["b"]) == (3, 1.0, 2.0)
    assert (found.parts, found.kind, found.index, found.flag) == ((Inner("ö", "here"),), "b", 7, True)
    assert isinstance(found.rate, float)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"step": -1}, "has `step`, which is negative"),
        ({"step": True}, "has `step`, which is no whole number"),
        ({"step": 3.0}, "has `step`, which is no whole number"),
        ({"step": 2**63}, "has `step`, which is too large"),
        ({"rate": "1"}, "has `rate`, which is no number"),
        ({"rate": 10**400}, "has `rate`, which is too large"),
        ({"scores": []}, "has `scores`, which is no object"),
        ({"scores": {"s3cret": "b"}}, "has `scores[...]`, which is no number"),
        ({"parts": "xy"}, "has `parts`, which is no list"),
        ({"parts": [{"text": "x"}, "x"]}, "has `parts[1]`, which is no object"),
        ({"parts": [{}]}, "lacks `parts[0].text`"),
        ({"parts": [{"text": 1}]}, "has `parts[0].text`, which is no text"),
        (
            {"parts": [{"text": "\ud800"}]},
            "has `parts[0].text`, which has half of a pair of surrogates, which is no text",
        ),
        ({"kind": "s3cret"}, "has `kind`, which is none of `a`, `b`"),
        ({"kind": ["a"]}, "has `kind`, which is none of `a`, `b`"),
        ({"index": "-7"}, "has `index`, which is no whole number"),
        ({"index": "7" * 30}, "has `index`, which is no whole number"),
        ({"flag": 1}, "has `flag`, which is neither true nor false"),
    ],
)
def test_fields_of_another_type(changed: dict[str, Any], reason: str) -> None:
    """The field is named, and nothing that the text holds."""
    with pytest.raises(BadRecord) as caught:
        parse_record(json.dumps(GOOD | changed), Whole)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON (line 1, column 1)"),
        ("{}\n}", "is not JSON (line 2, column 1)"),
        ("[]", "is no object"),
        ("null", "is no object"),
        ('{"step": 1e999}', "has a number that is too large"),
        ('{"step": NaN}', "has NaN, which is no number in JSON"),
        ('{"step": ' + "9" * 5000 + "}", "has a number that is too large"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"step": ' * 100_000, "is nested too deeply"),
        (b"\xff\xfe", "is no text in UTF-8"),
        ('{"step": 1}'.encode("utf-16"), "is no text in UTF-8"),
        ("{}" + " " * 1000, "is longer than 1,000 bytes"),
    ],
)
def test_texts_that_are_no_record(text: str | bytes, reason: str) -> None:
    """Each way in which a text is none has its words."""
    with pytest.raises(BadRecord) as caught:
        parse_record(text, Whole, 1000 if "longer" in reason else 1 << 24)
    assert str(caught.value) == reason


def test_faults_have_the_names_that_stand_in_the_file() -> None:
    """Where Python has no such name, that of the field is told of nowhere, however deep it is."""

    @frozen
    class Renamed:
        inner: tuple[Inner, ...] = field(metadata={NAME: "parts of it"})
        other: Mapping[str, Inner] = field(factory=dict, metadata={NAME: "class"})
        maybe: Inner | None = field(default=None, metadata={NAME: "if"})

    for content, reason in (
        ({}, "lacks `parts of it`"),
        (
            {"parts of it": [{"text": "a"}, {"text": "b", "from": 5}]},
            "has `parts of it[1].from`, which is no text",
        ),
        ({"parts of it": [{}]}, "lacks `parts of it[0].text`"),
        ({"parts of it": [], "class": []}, "has `class`, which is no object"),
        ({"parts of it": [], "if": {"text": "", "from": 1}}, "has `if.from`, which is no text"),
    ):
        with pytest.raises(BadRecord) as raised:
            parse_record(json.dumps(content), Renamed)
        assert str(raised.value) == reason


def test_only_files_of_a_sensible_size_are_read(tmp_path: Path) -> None:
    """A FIFO is not waited for, and of a file that is too long no more than the limit is read."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps(GOOD))
    assert read_record(path, Whole).step == 3
    with pytest.raises(BadRecord, match="is longer than 20 bytes"):
        read_record(path, Whole, 20)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="is a pipe"):
        read_record(tmp_path / "fifo", Whole)
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "none", Whole)
