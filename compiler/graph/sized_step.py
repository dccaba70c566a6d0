"""The step of a model whose inputs have axes without fixed sizes.

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

if TYPE_CHECKING:
    from typing import TypeVar

    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Plan
    from compiler.step.step import Step

    AnyPlan = TypeVar("AnyPlan", bound=Plan)

_sized: WeakKeyDictionary[tf.Graph, CompiledGraph] = WeakKeyDictionary()


def sized_step(compiled: CompiledGraph) -> Step:
    """Return the step of the same plan with the sizes that forecasts assume.

    That is the step itself if all inputs have fixed shapes.
    """
    plan = compiled.plan
    if not any(each.free for each in plan.model.inputs):
        return compiled.step
    found = _sized.get(compiled.graph)
    if found is None:
        sized = with_sizes(plan)
        base = str(Path(plan.spec.path).parent)
        found = _sized[compiled.graph] = compile_step(sized, base=base, seed=compiled.seed)
    return found.step


def with_sizes(plan: AnyPlan) -> AnyPlan:
    """Return a plan with the sizes that forecasts assume, in place of those that are free."""
    inputs = tuple(evolve(each, shape=each.assumed_shape, free=()) for each in plan.model.inputs)
    return evolve(plan, model=evolve(plan.model, inputs=inputs))
