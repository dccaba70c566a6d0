"""Forecasts of a step of a model whose inputs have axes without fixed sizes.

The memory and the time of a step follow from static shapes. The graph is therefore built once more, with the
sizes that forecasts assume in place of the free ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import tensorflow as tf
from attrs import evolve

from compiler.graph.build import compile_step
from compiler.graph.forecasts.memory_of_some import memory_from_some, simulated_plan
from compiler.graph.inspect.memory.forecast import forecast_step_memory
from compiler.step.read.map import StepMemory

if TYPE_CHECKING:
    from typing import TypeVar

    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Plan

    AnyPlan = TypeVar("AnyPlan", bound=Plan)

_sized: WeakKeyDictionary[tf.Graph, CompiledGraph] = WeakKeyDictionary()


def with_assumed_sizes(compiled: CompiledGraph) -> CompiledGraph:
    """Return the graph of the same plan with the sizes that forecasts assume.

    That is the graph itself if all inputs have fixed shapes.

    Args:
        compiled: The graph.
    """
    plan = compiled.plan
    if not any(each.free for each in plan.model.inputs):
        return compiled
    found = _sized.get(compiled.graph)
    if found is None:
        sized = with_sizes(plan)
        base = str(Path(plan.spec.path).parent)
        found = _sized[compiled.graph] = compile_step(sized, base=base, seed=compiled.seed)
    return found


def with_sizes(plan: AnyPlan) -> AnyPlan:
    """Return a plan with the sizes that forecasts assume, in place of those that are free.

    Args:
        plan: The plan.
    """
    inputs = tuple(evolve(each, shape=each.assumed_shape, free=()) for each in plan.model.inputs)
    return evolve(plan, model=evolve(plan.model, inputs=inputs))


def forecast_memory(compiled: CompiledGraph) -> dict[str, StepMemory]:
    """Return the peak of a step on each device, as `forecast_step_memory` does, with assumed sizes.

    If there are too many clones to simulate the step of all, it is forecast from that of some.

    Args:
        compiled: The graph.
    """
    sized = with_assumed_sizes(compiled)
    some = simulated_plan(sized)
    return forecast_step_memory(sized) if some is None else memory_from_some(sized, some)
