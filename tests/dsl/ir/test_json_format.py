"""The IR as JSON and back."""

import json
from pathlib import Path

import pytest

import grammar
from dsl import ir
from tests.folders import ROOT
from tests.support import ir_of
from tfdeploy.cli.commands.texts import to_json

SPECS = [*(ROOT / "examples").glob("*.tfdeploy"), *(ROOT / "tests/grammar/specs").glob("*.tfdeploy")]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_round_trip(path: Path) -> None:
    """Every part of the language comes back from JSON as it was."""
    spec = grammar.read(path, allow_python=True).spec
    again = ir_of(to_json(spec))
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
