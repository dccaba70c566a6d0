"""Switching how gradients are joined or conditioned moves nothing that the spec has placed."""

from functools import cache

import pytest

from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from compiler.mapping.records import PlacementMap
from tests.graphs import graph_of
from tests.models import model

PLACES = {
    "shared": """
        clones -> cpu[1..3], variables -> cpu[0], variables("logits/*") -> cpu[2]
        slots("conv/*") -> cpu[0], inputs -> cpu[3], ops("norm/*") -> cpu[1]
    """,
    "balanced": "variables -> balanced([cpu[2], cpu[3], cpu[4]])\nupdates -> cpu[4]",
    "replicated": 'variables -> replicated\nslots -> cpu[4]\nops("logits/*") -> cpu[3]',
}
SWITCHES = [
    {"update__aggregate": "tree"},
    {"update__aggregate": "hierarchical"},
    {"update__aggregate": "ring"},
    {"update__aggregate": "shuffle(shards = 2)"},
    {"update__aggregate": "collective"},
    {"update__pack": "1KiB"},
    {"update__clip": "global_norm(1.0)"},
    {"update__batch_norm": "mean"},
    {"update__ema": "0.9"},
    {"update__accumulate": "3", "update__aggregate": "shuffle(shards = 2)"},
    {"update__mode": "async"},
    {"update__mode": "local", "update__average_every": "2"},
    {"update__batch_norm": "synchronized"},
    {"update__precision": "mixed_float16"},
]
OTHER_TOWERS = SWITCHES[-2:]
"""What changes what a tower computes, so that some of its ops are gone."""
CASES = [
    (where, each)
    for each in SWITCHES
    for where in PLACES
    if (where, *each.values()) != ("replicated", "async")  # which cannot be combined
]
FURTHER = ("Average", "replica_1", "replica_2")


def placed(where: str, switch: dict[str, str]) -> PlacementMap:
    """Return the map of a model with batch normalization over three clones and five devices."""
    spec = model("normal", clones=3, batch=4, devices=5, place=PLACES[where], optimizer="Adam(0.1)", **switch)
    return map_placement(graph_of(spec))


@cache
def fixed(where: str) -> PlacementMap:
    """Return the map with `add_n` and nothing else said."""
    return placed(where, {})


def towers(placement: PlacementMap) -> dict[str, tuple[str, str]]:
    """Return device and reason of the ops that towers consist of, and of the next examples."""
    return {
        op.name: (op.requested, op.rule.text)
        for op in placement.ops
        if op.name == "input/next" or (op.role in {"forward", "gradient"} and op.clone is not None)
        if "/seed/" not in op.name
    }


def variables(placement: PlacementMap) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the devices of variables and of their slots, without averages and further copies."""
    return {
        each.name: (
            each.device,
            {slot.name: slot.device for slot in each.slots if not slot.name.endswith(FURTHER)},
        )
        for each in placement.variables
    }


@pytest.mark.family(every=20)
@pytest.mark.parametrize(("where", "switch"), CASES)
def test_what_the_spec_has_placed_stays(where: str, switch: dict[str, str]) -> None:
    """Variables, slots, inputs and the ops of every tower are where they were, and for the same reason.

    Statistics of a layer may be made by all clones, and not by the first alone.
    """
    before, found = fixed(where), placed(where, switch)
    assert variables(found) == variables(before)
    here, there = towers(before), towers(found)
    kept = here.keys() & there.keys()
    assert {name: (here[name], there[name]) for name in kept if here[name] != there[name]} == {}
    if switch not in OTHER_TOWERS:
        assert kept == here.keys()
    if switch not in OTHER_TOWERS and "update__accumulate" not in switch:  # which has loops around towers
        assert all(name.startswith(("clone_1/norm/", "clone_2/norm/")) for name in there.keys() - kept)


def test_switches_of_a_loss_scale_run_where_they_were_asked_to() -> None:
    """TensorFlow moves none that lets bad steps pass away from the variables, on whatever device."""
    spec = model(
        "normal",
        clones=2,
        batch=4,
        devices=3,
        place="variables -> balanced(cpu[*])",
        optimizer="SGD(0.1)",
        update__precision="mixed_float16",
    )
    compiled = graph_of(spec)
    found = map_placement(compiled, run_one_step(compiled))
    assert {op.assigned for op in found.ops if op.type == "Switch"} == {"cpu[0]", "cpu[1]", "cpu[2]"}
    assert found.misplaced == ()
