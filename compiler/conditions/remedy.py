"""The setting with which a step would need no more memory than the spec expects."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from compiler.graph.build import compile_step
from compiler.graph.sized_step import sized_step
from compiler.plan import Plan
from compiler.step.read.held import held_by_device
from compiler.step.read.memory import forecast_memory
from dsl import ir

MOST_CLONES = 32
"""With more clones no setting is looked for, because that takes longer than a message may."""


def remedy_for(plan: Plan, condition: ir.Condition) -> str | None:
    """Return the setting with which a condition of memory that fails would hold; None if none is known."""
    if condition.function != "memory" or condition.operator not in ("<", "<="):
        return None
    if plan.update.recompute is not None or len(plan.all_towers) > MOST_CLONES:
        return None
    limit = int(condition.value) - (condition.operator == "<")
    update = evolve(plan.update, recompute=ir.Call("memory", (limit,)))
    spec = evolve(plan.spec, update=update, expect=ir.Expect())
    tried = compile_step(evolve(plan, spec=spec), base=str(Path(spec.path).parent))
    step, (devices, *_) = sized_step(tried), condition.arguments
    held, memory = held_by_device(step), forecast_memory(step)
    assert isinstance(devices, ir.DeviceSet)
    refs = (each.ref for each in plan.topology.resolve_set(devices))
    if tried.plan.recomputed is None or any(
        sum(held[ref].values()) + memory[ref].bytes > limit for ref in refs
    ):
        return None
    return f"recompute = memory({condition.text.rpartition(condition.operator)[2].strip()})"
