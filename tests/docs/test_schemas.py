"""The published schemas accept what is written, and exactly what the tool's own readers accept."""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from compiler.kinds.kind_map import KindMap
from compiler.mapping.records import PlacementMap
from compiler.report.compare import compare, diff_json
from compiler.time.profile import LinkCost, MeasuredMachine, OpCost, Profile
from dsl.files.typed_json import BadRecord, parse_record, to_json
from tests.placement_maps import make_kinds, make_map
from tfdeploy.cli.group import load
from tfdeploy.doctor import Examination, machine
from tfdeploy.doctor.gpu import GpuReport, Installed, Outcome, Rung
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.result import Best, Evaluated, Result, Seconds, SplitResult
from tfdeploy.runtime.track.tracking import Tracked
from tfdeploy.sweeping.sweep import SweepRecord, Trial
from tools.schemas.published import FOLDER, SCHEMAS

SPLIT = SplitResult(0.5, {"accuracy": 0.75}, 100)
RESULT = Result(
    status="finished",
    steps=10,
    loss=0.25,
    metrics={"accuracy": float("nan")},
    test=SPLIT,
    examples_per_second=1000.0,
    seconds=Seconds(1.0, 0.5, 2.0),
    directory="runs/m",
    best=Best(5, "lowest", "loss", 0.2),
)
LINE = HistoryRecord(1, "train", 0.5, 0.5, {"accuracy": 0.1}, 10.0, learning_rate=0.1)
PROFILE = Profile(
    MeasuredMachine("some processor", 2, "2.21.0"),
    ("m.tfdeploy",),
    1e-4,
    1e-6,
    2e-5,
    1e10,
    1e9,
    (OpCost("MatMul", ("float32[4,4]",), "", 128, 256, 1, 1.0, 1e-5, 2e-5),),
    (LinkCost("process", 1e-5, None),),
)
GPUS = GpuReport(
    2,
    Installed("2.21.0", "3.15.1", None, None, None, ("a GPU, 8.0",)),
    (Rung("one op", Outcome("op", "it failed", None, 0.5, {"GFLOP/s": 10.0}), "what helps"),),
)
SWEEP = SweepRecord("m.tfdeploy", "0" * 64, "loss", "lowest", (Trial(1, {"clones": "2"}, "it failed"),))
TRACKED = Tracked("mlflow", {"server": None, "wait": 30.0}, "/somewhere", "m", "a1", 5, fault="it is gone")
VALUES = (None, True, "x", -1, 1, 1.5, [], {})


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return what compares a value with a published schema, which is valid itself."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_schema_is_in_the_package_with_its_version() -> None:
    """The files are those of the table; an identifier and a title have the version."""
    assert {path.name for path in FOLDER.iterdir()} == {each.file for each in SCHEMAS}
    for each in SCHEMAS:
        schema = validator(each.name).schema
        assert schema["$id"].endswith(f":{each.name}:{each.version}")
        assert schema["title"].endswith(f" {each.version}")


@pytest.mark.family(every=4)
@pytest.mark.parametrize(
    ("name", "record", "text"),
    [
        ("placement", PlacementMap, make_map(1).to_json()),
        ("placement-2", KindMap, make_kinds().to_json()),
        ("result", Result, RESULT.to_json()),
        ("history", HistoryRecord, LINE.to_json()),
        ("profile", Profile, to_json(PROFILE)),
        ("gpu", GpuReport, GPUS.to_json()),
        ("sweep", SweepRecord, SWEEP.to_json()),
        ("track", Tracked, TRACKED.to_json()),
    ],
    ids=["placement", "placement-2", "result", "history", "profile", "gpu", "sweep", "track"],
)
def test_a_schema_accepts_what_the_reader_accepts(name: str, record: type, text: str) -> None:
    """For the text itself, without each of its fields, and with other values in place of each."""
    content = _short(json.loads(text))
    verdicts = [
        (_reads(changed, record), validator(name).is_valid(changed), changed) for changed in _changes(content)
    ]
    assert [changed for read, valid, changed in verdicts if read != valid] == []
    assert {read for read, _, _ in verdicts} == {True, False}
    assert validator(name).is_valid(json.loads(text))


def _reads(content: Any, record: type) -> bool:
    try:
        parse_record(json.dumps(content), record)
    except BadRecord:
        return False
    return True


def _short(content: Any) -> Any:
    """Return the content with one element of each list, so that there are not too many changes."""
    if isinstance(content, list):
        return [_short(each) for each in content[:1]]
    if isinstance(content, dict):
        return {key: _short(each) for key, each in content.items()}
    return content


def _changes(content: Any) -> Iterator[Any]:
    """Yield the content, and copies of it with one change each."""
    yield content
    yield {**content, "a later field": 1}
    for path in _paths(content):
        for value in VALUES:
            changed = deepcopy(content)
            _inner(changed, path[:-1])[path[-1]] = value
            yield changed
        if isinstance(path[-1], str):
            changed = deepcopy(content)
            del _inner(changed, path[:-1])[path[-1]]
            yield changed


def _paths(content: Any) -> Iterator[tuple[Any, ...]]:
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *rest) for rest in _paths(value))


def _inner(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def test_outputs_without_a_reader_meet_their_schemas(tmp_path: Path) -> None:
    """Diagnostics with and without a place, differences, examinations and evaluations, whole."""
    wrong = tmp_path / "wrong.tfdeploy"
    wrong.write_text(
        'tfdeploy = 1\nmodel "m" {\n  x = input(float32, [4])\n  y = x -> Dens(2)\n  output = z\n}\n'
    )
    told = [
        json.loads(CliRunner().invoke(load("check"), [*paths, "--format", "json"]).stdout)
        for paths in ([str(wrong)], [str(tmp_path / "none.tfdeploy")])
    ]
    assert told[0]["diagnostics"][0]["range"] is not None
    assert told[1]["diagnostics"][0]["range"] is None
    outputs = [
        *(("diagnostics", each) for each in told),
        ("diff", json.loads(diff_json(compare(make_map(1), make_map(2))))),
        ("doctor", json.loads(Examination.of((machine.proxy(),)).to_json())),
        ("evaluation", json.loads(Evaluated("model.ckpt-5", 5, {"test": SPLIT}).to_json())),
    ]
    for name, content in outputs:
        validator(name).validate(content)
        unknown = content.keys() - validator(name).schema["properties"].keys()
        assert unknown == set(), name
        broken = {key: value for key, value in content.items() if key != next(iter(content))}
        assert not validator(name).is_valid(broken), name


def test_a_schema_says_what_its_fields_mean() -> None:
    """The words are those of the records, with the null of JSON."""
    properties = validator("result").schema["properties"]
    assert properties["resumed_from"]["description"].endswith("; null for a new run.")
    undescribed = [
        (each.name, key)
        for each in SCHEMAS
        for key, value in validator(each.name).schema["properties"].items()
        if "description" not in value and each.name != "trace"
    ]
    assert undescribed == []
