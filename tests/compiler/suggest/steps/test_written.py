"""Steps that are written from the step of a graph, against graphs that are built: op for op."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from typing import Any

import pytest

import grammar
from compiler.graph.build import compile_graph
from compiler.graph.inspect.mapping.placement_map import map_placement
from compiler.graph.inspect.memory.forecast import forecast_step_memory
from compiler.pipeline import make_plan
from compiler.plan import Plan
from compiler.step.read.work import timed_step
from compiler.suggest.moved import written_map
from compiler.suggest.steps.written import NotWrittenError, write_step
from compiler.time.costs import choose_costs
from compiler.time.forecast import forecast_step
from compiler.time.work import StepWork
from tfdeploy.suggesting.reading import origin_of

SPEC = """tfdeploy = 1
model "small" {{
  x = input(float32, [16])
  y = input(int32, [])
  h = x -> Dense(9, activation = relu, name = "hidden") -> BatchNormalization(name = "normal")
  z = h -> Dense(5, name = "logits")
  loss = [y, z] -> SparseCategoricalCrossentropy(from_logits = true)
}}
data {{ train = synthetic(64, x = feature(float32, [16]), y = feature(int32, classes = 5)) }}
devices {{ gpu = 4, cpu = 1, kind = v100 }}
clones {{ global_batch = 48 }}
place {{
  clones -> {clones}
  variables -> {variables}
}}
update {{
  optimizer = {optimizer}
  aggregate = {aggregate}
  pack = {pack}
  batch_norm = {batch_norm}
}}
train {{ steps = 3 }}
"""
USUAL = {
    "clones": "gpu[*]",
    "variables": "cpu[0]",
    "optimizer": "Adam(0.1)",
    "aggregate": "add_n",
    "pack": "none",
    "batch_norm": "first",
}
SHARDED = "sharded(gpu[*], min_size = 64B)"
SMALL = "sharded(gpu[*], min_size = 16B)"
"""A rule by which statistics are in pieces, too."""
KINDS: dict[str, dict[str, str]] = {
    "whole": {},
    "sharded, packed": {"variables": SHARDED, "pack": "1KiB"},
    "copies, ring": {"variables": "replicated", "aggregate": "ring"},
    "copies, packed tree": {"variables": "replicated", "aggregate": "tree", "pack": "256B"},
    "ranges": {"variables": "balanced(gpu[*])", "aggregate": "shuffle"},
    "pairs, small": {"variables": SMALL, "aggregate": "hierarchical"},
}


PAIRS = [each for each in product(KINDS, KINDS) if "whole" in each and each[0] != "pairs, small"]


def plan_of(**changes: str) -> Plan:
    """Return the plan of the spec with other settings."""
    reading = grammar.read("small.tfdeploy", text=SPEC.format(**USUAL | changes))
    assert reading.spec is not None, reading.diagnostics
    return make_plan(reading.spec)


@cache
def built(kind: str) -> tuple[Any, StepWork]:
    """Return the graph of a kind of spec, and its step."""
    graph = compile_graph(plan_of(**KINDS[kind]), seed=0)
    return graph, timed_step(graph.step)


def ops_of(work: StepWork) -> Counter[Any]:
    """Return what the ops of a step do and where, without their names."""
    return Counter((op.signature.type, op.signature.inputs, op.device, op.flops, op.bytes) for op in work.ops)


def heavy_ops(work: StepWork) -> Counter[Any]:
    """Return the products, sums and updates of a step, with their devices and operations."""
    kinds = {"MatMul", "BiasAdd", "ReluGrad", "BiasAddGrad", "ResourceApplyAdam", "AddN"}
    found = (op for op in work.ops if op.signature.type in kinds and op.signature.inputs[0] != "float32[]")
    return Counter((op.signature.type, op.signature.inputs, op.device, op.flops) for op in found)


def seconds(work: StepWork) -> float:
    """Return the forecast of a step."""
    costs = choose_costs(work, plan_of().spec.devices, None, 2)
    assert costs is not None
    return forecast_step(work, costs).seconds


@pytest.mark.family(every=6)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_step_is_that_of_a_graph_that_is_built(source: str, target: str) -> None:
    """It has the same ops on the same devices, as many arrows, and takes as long."""
    graph, work = built(source)
    origin = origin_of(graph, work)
    assert origin is not None
    found, wanted = write_step(origin, plan_of(**KINDS[target])).work, built(target)[1]
    assert ops_of(found) == ops_of(wanted)
    assert len(found.arrows) == len(wanted.arrows)
    assert sum(each.bytes for each in found.arrows) == sum(each.bytes for each in wanted.arrows)
    assert seconds(found) == pytest.approx(seconds(wanted), rel=1e-3)


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ({}, {}),
        ({}, {"variables": SMALL}),
        ({}, {"variables": "replicated", "aggregate": "ring"}),
        ({"variables": "replicated"}, {}),
        ({}, {"clones": "gpu[0]"}),
        ({"clones": "gpu[0]"}, {}),
        ({"clones": "gpu[0..1]"}, {"variables": SMALL}),
    ],
)
def test_means_of_statistics_are_those_of_a_graph_that_is_built(
    source: dict[str, str], target: dict[str, str]
) -> None:
    """Whole or in pieces, with one place or with copies, from and for any number of clones."""
    graph = compile_graph(plan_of(**source, batch_norm="mean"), seed=0)
    origin = origin_of(graph, timed_step(graph.step))
    assert origin is not None
    plan = plan_of(**target, batch_norm="mean")
    found, wanted = write_step(origin, plan).work, timed_step(compile_graph(plan, seed=0).step)
    statistics = [
        Counter(
            (op.signature, op.device, op.flops, op.bytes)
            for op in work.ops
            if "moving_" in op.name and op.name.startswith(("aggregate/", "update/"))
        )
        for work in (found, wanted)
    ]
    assert statistics[0] == statistics[1] != Counter()
    assert heavy_ops(found) == heavy_ops(wanted)
    assert seconds(found) == pytest.approx(seconds(wanted), rel=0.05)


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    ("variables", "aggregate"),
    [
        ("cpu[0]", "tree"),
        ("cpu[0]", "ring"),
        ("cpu[0]", "shuffle(shards = 1)"),
        ("replicated", "hierarchical(size = 2)"),
    ],
)
def test_sums_are_those_of_a_graph_that_is_built(variables: str, aggregate: str) -> None:
    """With one place for the sum or with many, of a gradient that is cut or of one that is not."""
    origin = origin_of(*built("whole"))
    assert origin is not None
    plan = plan_of(variables=variables, aggregate=aggregate)
    found, wanted = write_step(origin, plan).work, timed_step(compile_graph(plan, seed=0).step)
    assert ops_of(found) == ops_of(wanted)
    assert len(found.arrows) == len(wanted.arrows)
    assert sum(each.bytes for each in found.arrows) == sum(each.bytes for each in wanted.arrows)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("target", ["sharded, packed", "copies, ring"])
def test_the_map_of_a_written_step_is_that_of_a_graph(target: str) -> None:
    """Variables, slots and what is sent are the same, and the memory of the fullest device is close."""
    graph, work = built("whole")
    origin = origin_of(graph, work)
    assert origin is not None
    before = map_placement(graph, memory=forecast_step_memory(graph))
    found = written_map(before, origin, write_step(origin, plan_of(**KINDS[target])))
    other = built(target)[0]
    wanted = map_placement(other, memory=forecast_step_memory(other))
    held = [
        {each.ref: (each.variable_bytes, each.slot_bytes) for each in placement.devices}
        for placement in (found, wanted)
    ]
    assert held[0] == held[1]
    sent = [
        {(each.from_device, each.to_device, each.bytes) for each in placement.transfers}
        for placement in (found, wanted)
    ]
    assert sent[0] == sent[1]
    fullest = [max(each.memory_bytes or 0 for each in placement.devices) for placement in (found, wanted)]
    assert fullest[0] == pytest.approx(fullest[1], rel=0.2)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("clones", ["gpu[0..1]", "gpu[0]"])
def test_fewer_clones_take_as_many_examples(clones: str) -> None:
    """Each clone has the ops of a larger batch; what outside of clones depends on their number is close."""
    graph, work = built("whole")
    origin = origin_of(graph, work)
    assert origin is not None
    plan = plan_of(clones=clones)
    found = write_step(origin, plan).work
    wanted = timed_step(compile_graph(plan, seed=0).step)
    assert {each.clone for each in found.ops} == {each.clone for each in wanted.ops}
    assert heavy_ops(found) == heavy_ops(wanted)
    assert seconds(found) == pytest.approx(seconds(wanted), rel=0.05)


def test_more_clones_are_written_like_those_that_there_are() -> None:
    """From a graph with two clones, a step of four has the heavy ops of four."""
    two = compile_graph(plan_of(clones="gpu[0..1]"), seed=0)
    origin = origin_of(two, timed_step(two.step))
    assert origin is not None
    found, wanted = write_step(origin, plan_of()).work, built("whole")[1]
    assert {each.clone for each in found.ops} == {each.clone for each in wanted.ops}
    assert heavy_ops(found) == heavy_ops(wanted)
    assert seconds(found) == pytest.approx(seconds(wanted), rel=0.05)


def test_what_is_not_known_is_not_written() -> None:
    """The sends of a collective are not forecast, and other modes of update have other steps."""
    graph, work = built("whole")
    origin = origin_of(graph, work)
    assert origin is not None
    with pytest.raises(NotWrittenError):
        write_step(origin, plan_of(variables="replicated", aggregate="collective"))
    text = SPEC.format(**USUAL).replace("aggregate = add_n", "mode = async").replace("pack = none", "")
    reading = grammar.read("small.tfdeploy", text=text)
    assert reading.spec is not None
    alone = compile_graph(make_plan(reading.spec), seed=0)
    assert origin_of(alone, timed_step(alone.step)) is None
    assert origin_of(*built("pairs, small")) is None  # statistics are in pieces
