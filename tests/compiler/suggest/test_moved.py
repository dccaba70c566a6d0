"""Placements that are compared without being built, against graphs that are built."""

from __future__ import annotations

from typing import Any

import pytest

import grammar
from compiler.graph.build import compile_graph
from compiler.graph.inspect.mapping.placement_map import map_placement
from compiler.graph.inspect.memory.forecast import forecast_step_memory
from compiler.pipeline import make_plan
from compiler.step.read.work import timed_step
from compiler.suggest.moved import devices_of_variables, moved_map
from compiler.time.costs import choose_costs
from compiler.time.forecast import forecast_step
from tests.support import CLASSIFIER, CONVOLUTION
from tfdeploy.suggesting.reading import following_ops

TEXT = CLASSIFIER.format(clones=2, batch=8, optimizer="Adam(0.1)", layers=CONVOLUTION).replace(
    "cpu = 2", "cpu = 2, kind = cpu"
)


def plan_with(rule: str) -> Any:
    """Return the plan with a rule for variables."""
    text = TEXT.replace("update {", f"place {{ clones -> cpu[*], {rule} }}\nupdate {{", 1)
    reading = grammar.read("moved.tfdeploy", text=text)
    assert reading.spec is not None
    return make_plan(reading.spec)


@pytest.fixture(scope="module")
def together() -> Any:
    """Return the graph with all variables on one device."""
    return compile_graph(plan_with("variables -> cpu[0]"))


@pytest.mark.parametrize("rule", ["variables -> balanced(cpu[*])", "variables -> cpu[1]"])
def test_a_moved_step_is_that_of_a_graph_that_is_built(together: Any, rule: str) -> None:
    """Each op is on its device, the step takes the same time, and devices and links have the same bytes."""
    plan = plan_with(rule)
    infos = [each.placement.info for each in together.variables.values()]
    homes = devices_of_variables(plan, infos)
    assert homes is not None
    work = timed_step(together.step)
    moved = work.moved(following_ops(together.step, homes))
    graph = compile_graph(plan)
    built = timed_step(graph.step)
    assert {each.name: each.device for each in moved.ops} == {each.name: each.device for each in built.ops}
    costs = choose_costs(work, plan.spec.devices, None, 2)
    assert costs is not None
    assert forecast_step(moved, costs).seconds == pytest.approx(forecast_step(built, costs).seconds)
    before = map_placement(together, memory=forecast_step_memory(together))
    found, wanted = moved_map(before, moved, infos, homes), map_placement(graph)
    assert found != before
    for one, other in zip(found.devices, wanted.devices, strict=True):
        assert (one.variable_bytes, one.slot_bytes) == (other.variable_bytes, other.slot_bytes)
        assert one.memory_bytes is not None
        assert one.step_bytes is not None
        rest = one.variable_bytes + one.slot_bytes + one.other_bytes
        assert one.memory_bytes == rest + one.step_bytes
    sent, expected = (
        {(each.from_device, each.to_device, each.tensors, each.bytes, each.bytes_unknown) for each in links}
        for links in (found.transfers, wanted.transfers)
    )
    assert sent == expected


@pytest.mark.parametrize("target", ["sharded(cpu[*])", "replicated"])
def test_other_graphs_are_not_compared(together: Any, target: str) -> None:
    """Variables that are cut or copied make another graph."""
    infos = [each.placement.info for each in together.variables.values()]
    assert devices_of_variables(plan_with(f"variables -> {target}"), infos) is None
