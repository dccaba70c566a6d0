"""The switches that let bad steps pass stay on the devices of the variables that they guard."""

from __future__ import annotations

from compiler.graph.inspect.one_step import run_one_step
from compiler.graph.inspect.placement_map import map_placement
from tests.graphs import graph_of
from tests.models import model


def test_switches_run_where_they_were_asked_to() -> None:
    """TensorFlow moves no switch of a step with loss scaling away from the variables, on whatever device."""
    place = "variables -> balanced(cpu[*])"
    spec = model(
        "normal",
        clones=2,
        batch=4,
        devices=3,
        place=place,
        optimizer="SGD(0.1)",
        update__precision="mixed_float16",
    )
    compiled = graph_of(spec)
    assigned = run_one_step(compiled)
    switches = {op.assigned for op in map_placement(compiled, assigned).ops if op.type == "Switch"}
    assert switches == {"cpu[0]", "cpu[1]", "cpu[2]"}
    assert map_placement(compiled, assigned).misplaced == ()
