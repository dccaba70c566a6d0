"""How large the variables of a graph are, held against what a process can hold, before any is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from compiler.figures import size
from compiler.graph.compiled import CompiledGraph
from compiler.graph.tower.template import WeightInfo
from compiler.plan import Plan
from compiler.step.read.held import held_by_device
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors

MOST = 1 << 47
"""The most bytes that a process can address, on any machine that TensorFlow runs on."""


def require_holdable(plan: Plan, weights: Mapping[str, WeightInfo]) -> None:
    """Raise SpecError at the step with the largest weight if no process can hold all weights."""
    total = sum(each.bytes for each in weights.values())
    if total > MOST:
        raise SpecError([_told(plan, weights, total, f"no process can hold more than {size(MOST)}")])


def require_room(compiled: CompiledGraph, limit: int, *, launched: bool = False) -> None:
    """Raise SpecError if the CPU devices of this machine cannot hold what a training run allocates at once.

    That is every variable with its slots, copies and averages, and the largest tensor that a tower computes.
    What else a step needs comes on top of it, so that what passes may still be too large.

    Args:
        limit: The memory of this process in bytes.
        launched: Whether all tasks of all jobs are processes of this machine. If they are neither that nor
            emulated, the devices of jobs do not count, since the memory of their machines is not known here.

    Raises:
        SpecError: At the step with the largest weight, or at the batch.
    """
    plan = compiled.plan
    together = plan.emulate or launched
    devices = [each for each in plan.topology.devices if each.kind == "cpu" or plan.emulate]
    own = {each.ref for each in devices if together or each.job is None}
    total = sum(count for ref, count in variable_bytes(compiled).items() if ref in own)
    there = f"there are {size(limit)} of memory here"
    if total > limit:
        raise SpecError([_told(plan, compiled.weights, total, there)])
    largest, name, shape = _largest_tensor(compiled, own)
    if total + largest > limit:
        clones = plan.spec.clones
        span = clones.span_of("batch" if clones.batch is not None else "global_batch") or clones.span
        raise SpecError(
            [errors.batch_without_room(span, name=name, shape=shape, needed=size(largest), reason=there)]
        )


def variable_bytes(compiled: CompiledGraph) -> Counter[str]:
    """Return the bytes of the variables on each device, with slots, copies, averages and means."""
    return Counter({ref: sum(each.values()) for ref, each in held_by_device(compiled.step).items()})


def _largest_tensor(compiled: CompiledGraph, own: set[str]) -> tuple[int, str, tuple[int, ...]]:
    """Return the bytes, the op and the shape of the largest tensor that a tower computes on the devices."""
    towers = (each for each in compiled.ledger.ops.values() if each.role == "forward")
    here = (each for each in towers if each.device.ref in own and each.type not in _NEVER_MADE)
    made = (tensor for each in here for tensor in each.outputs if tensor.bytes is not None)
    return max(((each.bytes or 0, each.op, each.known_shape or ()) for each in made), default=(0, "", ()))


_NEVER_MADE = {"BroadcastTo", "Fill", "OnesLike", "Placeholder", "VarHandleOp", "ZerosLike"}
"""Types of ops whose outputs TensorFlow may leave out when it optimizes a graph."""


def _told(plan: Plan, weights: Mapping[str, WeightInfo], total: int, reason: str) -> Diagnostic:
    largest = max(weights.values(), key=lambda each: each.bytes)
    paths = [each.path for each in plan.model.layers]
    of_layer = (each.span for each in plan.model.calls if largest.name.startswith(f"{paths[each.layer]}/"))
    return errors.weights_too_large(
        next(of_layer, plan.spec.model.span),
        total=size(total),
        name=largest.name,
        shape=largest.shape,
        largest=size(largest.bytes),
        reason=reason,
    )
