"""The IR as JSON and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import grammar
from dsl import ir
from dsl.ir.json_format import FormatError, from_json, to_json
from tests.folders import ROOT

SPECS = [*(ROOT / "examples").glob("*.tfdeploy"), *(ROOT / "tests/grammar/specs").glob("*.tfdeploy")]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_round_trip(path: Path) -> None:
    """Every part of the language comes back from JSON as it was."""
    spec = grammar.read(path, allow_python=True).spec
    assert spec is not None
    again = from_json(to_json(spec))
    assert again == spec
    assert (again.path, again.sha256) == (spec.path, spec.sha256)
    assert to_json(again) == to_json(spec)


def test_records_bear_their_names_and_no_places() -> None:
    """A record is an object with the name of its class; where it was written is left out."""
    spec = ir.Spec(
        ir.Model("m", (ir.Binding("y", ir.Flow(ir.Ref("x"), (ir.Step("layer", ir.Call("Dense", (2,))),))),))
    )
    content = json.loads(to_json(spec))
    assert content["format_version"] == "1.0"
    assert content["spec"]["node"] == "Spec"
    assert content["spec"]["model"]["bindings"] == [
        {
            "node": "Binding",
            "name": "y",
            "value": {
                "node": "Flow",
                "source": {"node": "Ref", "name": "x"},
                "steps": [
                    {
                        "node": "Step",
                        "kind": "layer",
                        "call": {"node": "Call", "name": "Dense", "args": [2], "kwargs": {}},
                        "count": 1,
                        "inner": None,
                        "given": {},
                    }
                ],
            },
            "others": [],
        }
    ]


def _changed(*path: str, value: Any) -> str:
    content = json.loads(to_json(ir.Spec(ir.Model("m"), clones=ir.Clones(2, 8))))
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format_version": "1.0"}',
        _changed("format_version", value="2.0"),
        _changed("spec", value=3),
        _changed("spec", "node", value="Model"),
        _changed("spec", "model", "node", value="Nothing"),
        _changed("spec", "model", "name", value=None),
        _changed("spec", "clones", "node", value="FormatError"),
        _changed("spec", "clones", "extra", value=1),
        _changed("spec", "update", "mode", value="sometimes"),
        _changed("spec", "model", "loss", value=[1]),
        _changed("spec", "model", "output", value={"node": "json"}),
    ],
)
def test_what_is_no_ir_is_refused(text: str) -> None:
    """A text that is not the IR, of another version or with other fields raises FormatError."""
    with pytest.raises(FormatError):
        from_json(text)


def test_later_minor_versions_are_read() -> None:
    """Within 1.x fields may be added but none changes, so what is known of a later one could be read."""
    spec = ir.Spec(ir.Model("m"), clones=ir.Clones(2, 8))
    assert from_json(_changed("format_version", value="1.7")) == spec
