"""Slots on a device of their own: the update is made there, and is the same."""

from typing import Any

import numpy as np
import pytest

from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from tests.graphs import graph_of
from tests.support import CLASSIFIER, CONVOLUTION, Training, examples, spec_of

BLOCKS = "clones -> cpu[0..1]\n variables -> cpu[0]\n"
STEPS = 4


def spec(rules: str, **more: Any) -> Any:
    """Return the spec of a small classifier with two clones, four devices, and some rules."""
    options = {"clones": 2, "batch": 8, "optimizer": "Adam(0.01)", "layers": CONVOLUTION, **more}
    overrides = {key: options.pop(key) for key in list(options) if "__" in key}
    text = CLASSIFIER.format(**options) + f"place {{\n {BLOCKS} {rules}\n }}\n"
    return spec_of(text, devices__cpu="4", **overrides)


def trained(wanted: Any) -> dict[str, Any]:
    """Return every variable of a checkpoint after some steps."""
    with Training(wanted, examples(16)) as training:
        training.steps(STEPS)
        return training.values()


@pytest.mark.family(every=3)
@pytest.mark.parametrize("optimizer", ["Adam(0.01)", "Adagrad(0.1)", "Adafactor(0.1)"])
def test_weights_slots_and_averages_are_the_same_bit_for_bit(optimizer: str) -> None:
    """Whether slots are with their variable or elsewhere, after steps everything has the same bits."""
    together = trained(spec("", optimizer=optimizer, update__ema="0.9"))
    apart = trained(spec("slots -> cpu[3]", optimizer=optimizer, update__ema="0.9"))
    assert together.keys() == apart.keys()
    assert all(np.array_equal(together[name], apart[name]) for name in together)


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    "overrides",
    [
        {"update__mode": "async", "optimizer": "Nadam(0.01)"},
        {"update__precision": "mixed_float16", "optimizer": "Lamb(0.01)"},
    ],
)
def test_other_modes_take_slots_apart_as_well(overrides: dict[str, str]) -> None:
    """Training goes on under turns of async clones, and behind the gate of a loss scale."""
    with Training(spec("slots -> cpu[3]", **overrides), examples(16)) as training:
        losses = training.steps(30)
        assert losses[-1] < losses[0]
        assert int(training.session.run(training.compiled.global_step)) == 30 * (
            2 if overrides.get("update__mode") == "async" else 1
        )


def test_slots_their_weights_and_the_update_are_where_the_rule_says() -> None:
    """The fused op runs with the slots; their bytes count there, and the working copy of the weight."""
    compiled = graph_of(spec("slots -> cpu[3]"))
    assigned = run_one_step(compiled)
    placement = map_placement(compiled, assigned)
    assert placement.misplaced == ()
    applied = [each for each in placement.ops if each.type == "ResourceApplyAdam"]
    assert {each.assigned for each in applied} == {"cpu[3]"}
    bytes_of_weights = sum(each.bytes for each in placement.variables)
    held = {each.ref: (each.variable_bytes, each.slot_bytes, each.other_bytes) for each in placement.devices}
    assert held["cpu[0]"] == (bytes_of_weights, 0, 8)
    assert held["cpu[3]"] == (0, 2 * bytes_of_weights, bytes_of_weights)
    assert {slot.device for each in placement.variables for slot in each.slots} == {"cpu[3]"}
