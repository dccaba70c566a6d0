"""How a step computes its update changes nothing about where the spec has placed things."""

from __future__ import annotations

import pytest

from compiler.graph.build import compile_graph
from compiler.graph.inspect.placement_map import map_placement
from compiler.mapping.records import PlacementMap
from compiler.pipeline import make_plan
from tests.models import model

PLACE = {
    "shared": 'variables -> cpu[3]\nvariables("conv/*") -> cpu[2]\nops("norm/*") -> cpu[4]\ninputs -> cpu[4]',
    "balanced": "variables -> balanced([cpu[2], cpu[3], cpu[4]])\nupdates -> cpu[4]",
    "replicated": 'variables -> replicated\nslots -> cpu[4]\nops("logits/*") -> cpu[3]',
}
SWITCHES = {
    "tower by tower": {
        "update__batch_norm": "mean",
        "update__clip": "global_norm(1.0)",
        "update__ema": "0.9",
    },
    "synchronized": {"update__batch_norm": "synchronized"},
    "packed pairs": {"update__pack": "4KiB", "update__aggregate": "tree"},
    "micro-batches": {"update__accumulate": "3", "update__aggregate": "shuffle(shards = 2)"},
    "loss-scale": {"update__precision": "mixed_float16"},
}


def placed(place: str, **overrides: str) -> PlacementMap:
    """Return the placement of a model with batch normalisation over two clones and five devices."""
    spec = model("normal", clones=2, batch=4, devices=5, place=place, optimizer="Adam(0.1)", **overrides)
    return map_placement(compile_graph(make_plan(spec)))


@pytest.mark.full
@pytest.mark.parametrize("where", PLACE)
def test_switches_leave_placements_alone(where: str) -> None:
    """Variables, slots and every op of the towers stay where they are, and for the same reason.

    That holds for batch normalisation, clipping, accumulation, packing, aggregation, averages and loss
    scaling, over shared, balanced and replicated variables, with rules for parts of towers, inputs, updates.
    """
    plain = placed(PLACE[where])
    before = _towers(plain)
    for name, overrides in SWITCHES.items():
        switched = placed(PLACE[where], **overrides)
        assert _variables(switched) == _variables(plain), name
        towers = _towers(switched)
        kept = set(towers) & set(before)
        assert {each: towers[each] for each in kept} == {each: before[each] for each in kept}, name
        if name not in {"synchronized", "loss-scale"}:  # these change what a tower computes
            assert kept == set(before), name


def _variables(placement: PlacementMap) -> list[tuple[object, ...]]:
    return [
        (each.name, each.device, each.copies, each.rule.text, _slots(each.slots))
        for each in placement.variables
    ]


def _slots(slots: object) -> list[tuple[str, str]]:
    return [(each.name, each.device) for each in slots if "Average" not in each.name]  # type: ignore[attr-defined]


def _towers(placement: PlacementMap) -> dict[str, tuple[str, str, str]]:
    """Return device, role and reason of the ops that towers consist of, inputs included."""
    roles = {"forward", "gradient", "read", "input"}
    return {op.name: (op.requested, op.role, op.rule.text) for op in placement.ops if op.role in roles}
