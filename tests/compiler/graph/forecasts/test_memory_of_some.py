"""The memory of a step of many clones in a tree is forecast from some of them as from all."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve

import compiler.graph.forecasts.memory_of_some as of_some
from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.forecasts.assumed_sizes import forecast_memory
from compiler.graph.forecasts.memory_of_some import memory_from_some, plan_of_some, simulated_plan
from compiler.graph.inspect.memory.forecast import StepMemory, forecast_step_memory
from compiler.pipeline import make_plan
from compiler.plan import Plan
from dsl import ir
from tests.support import spec_of

SPEC = """
tfdeploy = 1

model "m" {{
  x = input(float32, [6])
  label = input(int32, [])
  y = x -> Dense(5, name = "fc1") -> BatchNormalization(name = "norm") -> Dense(3, name = "fc2")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{
  job "ps" {{ tasks = 2 }}
  job "worker" {{
    tasks = {tasks}
    gpu = {gpus}
  }}
}}
clones {{ batch = 4 }}
place {{
  clones -> worker[*].gpu[*]
  variables -> {variables}
}}
update {{
  optimizer = Momentum(0.1)
  aggregate = {aggregate}
  {update}
}}
train {{ seed = 3 }}
"""
LEVEL = 2 * 4 * (6 * 5 + 5 + 5 + 5 + 5 * 3 + 3)
"""The bytes of what a clone receives in a level, the gradients of all weights, and of the sums."""


def plan_of(
    tasks: int, gpus: int, *, variables: str = "round_robin(ps[*])", aggregate: str = "tree", update: str = ""
) -> Plan:
    """Return the plan of a small model for some workers with some GPUs each."""
    text = SPEC.format(tasks=tasks, gpus=gpus, variables=variables, aggregate=aggregate, update=update)
    return make_plan(spec_of(text))


def both(plan: Plan, clones: int) -> tuple[CompiledGraph, Mapping[str, StepMemory], Mapping[str, StepMemory]]:
    """Return the graph of a plan, the forecast from some clones, and that from all."""
    compiled = compile_graph(plan, seed=0)
    some = plan_of_some(plan, clones)
    assert some is not None
    assert len(some.towers) == clones
    return compiled, memory_from_some(compiled, some), forecast_step_memory(compiled)


@pytest.mark.family(every=5)
@pytest.mark.parametrize(
    ("tasks", "gpus", "clones", "deeper"),
    [
        (6, 6, 24, ("worker[0].gpu[0]", "worker[2].gpu[4]", "worker[4].gpu[0]")),
        (8, 2, 8, ("worker[0].gpu[0]", "worker[4].gpu[0]")),
        (8, 4, 16, ("worker[0].gpu[0]", "worker[4].gpu[0]")),
        (16, 1, 8, ("worker[0].gpu[0]", "worker[8].gpu[0]")),
        (7, 2, 8, ("worker[0].gpu[0]", "worker[4].gpu[0]")),
    ],
)
def test_forecast_is_that_of_all_clones(tasks: int, gpus: int, clones: int, deeper: tuple[str, ...]) -> None:
    """Bytes and tensors are equal on each device, also by name; a few clones take part in one level more.

    The first worker also adds up the losses and scores of all clones, which are numbers of 4 bytes.
    """
    _, found, wanted = both(plan_of(tasks, gpus), clones)
    assert found.keys() == wanted.keys()
    for ref, whole in wanted.items():
        if ref in deeper:
            assert whole.bytes - LEVEL <= found[ref].bytes <= whole.bytes
        elif ref == "worker[0].cpu[0]":
            assert whole.bytes - 3 * 4 * (tasks * gpus - clones) <= found[ref].bytes <= whole.bytes
        else:
            assert found[ref].bytes == whole.bytes, ref
            assert found[ref].largest == whole.largest, ref
            assert set(found[ref].alive) == set(whole.alive), ref


@pytest.mark.parametrize("update", ["", "mode = local\n  average_every = 4"])
def test_copies_take_about_as_much_as_with_all_clones(update: str) -> None:
    """Sums reach the copies of more clones later. The tensors that are named are those of the graph."""
    plan = plan_of(8, 2, variables="replicated", update=update)
    compiled, found, wanted = both(plan, 8)
    for ref, whole in wanted.items():
        if ".gpu" in ref:
            assert abs(found[ref].bytes - whole.bytes) <= LEVEL, ref
        for each in found[ref].largest:
            if not each.name.startswith("Recv_"):
                name = each.name.removesuffix(":0").removesuffix("/0")
                assert compiled.ledger.entries[name].device.ref == ref


def test_all_are_simulated_if_they_are_few_or_not_alike() -> None:
    """So they are if each worker has a graph of its own, and if devices are emulated."""
    assert plan_of_some(plan_of(9, 4)) is not None
    assert plan_of_some(plan_of(8, 4)) is None
    assert plan_of_some(plan_of(33, 1)) is not None
    assert plan_of_some(plan_of(32, 1)) is None
    assert plan_of_some(plan_of(9, 4, variables="worker[3].cpu[0]")) is None
    assert plan_of_some(plan_of(9, 4, update="replication = between_graph")) is None
    assert plan_of_some(evolve(plan_of(9, 4), emulate=True)) is None


@pytest.mark.parametrize("aggregate", ["tree", "add_n", "ring"])
def test_only_large_graphs_with_a_tree_are_simulated_in_part(
    aggregate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a clone does in a ring depends on the number of all clones."""
    plan = plan_of(9, 4, aggregate=aggregate)
    compiled = compile_graph(plan, seed=0)
    assert simulated_plan(compiled) is None
    monkeypatch.setattr(of_some, "MOST_OPS", 1000)
    some = simulated_plan(compiled)
    assert (some is not None) == (aggregate == "tree")
    if some is not None:
        assert plan.update.aggregate == some.update.aggregate == ir.Call("tree")
        assert forecast_memory(compiled) == memory_from_some(compiled, some)
        assert forecast_memory(compiled) != forecast_step_memory(compiled)
