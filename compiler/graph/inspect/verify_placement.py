"""Check that every op of a compiled graph is on a device that the spec, or a default, gave it.

An op is also misplaced if it is not on the device of the resource that it uses, if it is outside the devices
of its clone without a rule for that, or if it has strings as inputs or outputs (as summaries have) and is on
a GPU. The pieces of a weight, and the parts of it that clones update, must be all there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import tensorflow as tf
from attrs import define, frozen

from compiler.figures import gathered
from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.compiled import CompiledGraph
from compiler.graph.stamp.lookups import CALLS_OF_PYTHON, PYTHON, STRINGS, declares_strings
from compiler.graph.variables.variables import GraphVariable
from compiler.placement.rules import Rulebook
from compiler.plan import WorkerPlan
from compiler.reasons import Placed, Reason
from compiler.step.record import Op
from compiler.topology import Host
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors
from dsl.ir.place import PARAMETER_SERVER
from dsl.source import Span

MOST_SHOWN = 20


@frozen
class _Stray:
    """A misplaced op."""

    op: str
    device: str | None
    reason: str
    span: Span | None = None


def verify_placement(compiled: CompiledGraph) -> None:
    """Raise SpecError for misplaced ops: a diagnostic for each reason, with the first op and their number."""
    found = _grouped(_Verifier(compiled).strays())
    if found:
        raise SpecError(found[:MOST_SHOWN])


def _grouped(strays: Iterator[_Stray]) -> list[Diagnostic]:
    groups = gathered(((each.device, each.reason, each.span), each) for each in strays)
    return [
        errors.stray_op(span, op=group[0].op, device=device, reason=reason, more=len(group) - 1)
        for (device, reason, span), group in groups.items()
    ]


@define
class _Verifier:
    compiled: CompiledGraph

    def strays(self) -> Iterator[_Stray]:
        yield from self._incomplete()
        ops = self.compiled.ledger.ops
        for op in ops.values():
            reason = self._complaint(op, ops)
            if reason is not None:
                yield _Stray(op.name, op.device.ref, reason, op.placed.reason.span)

    def _incomplete(self) -> Iterator[_Stray]:
        """Yield the weights whose variables, or the parts that clones update, are not the whole weight."""
        pieces = gathered((each.weight, each) for each in self.compiled.variables.values())
        for name, weight in self.compiled.weights.items():
            found = pieces.get(name, [])
            parts = [each for variable in found for each in variable.parts]
            wanted = [each for variable in found for each in variable.placement.parts]
            if not _are_whole(found, weight.shape) or (wanted and not _are_whole(parts, weight.shape)):
                kind = "parts" if wanted and _are_whole(found, weight.shape) else "variables"
                count = len(parts if kind == "parts" else found)
                reason = f"its {count} {kind} are not the whole weight"
                yield _Stray(name, None, reason, self.compiled.plan.spec.place.span)

    def _complaint(self, op: Op, ops: Mapping[str, Op]) -> str | None:
        """Return what is wrong with the place of one of several ops, or None if nothing is."""
        device = op.placed.device
        if takes_resources(op.type):
            for each in op.inputs:
                home = ops[each.op].placed.device if each.dtype == "resource" else device
                if home is not device and home != device:
                    return f"what it works on is on `{home.ref}`"
        elif op.clone is not None and not self._within_clone(op):
            devices = ", ".join(f"`{each.ref}`" for each in self.compiled.plan.towers[op.clone].devices)
            return f"clone {op.clone} has {devices}"
        if device.kind == "gpu" and _gives_strings(op):
            return "GPUs have no ops on strings"
        if device.kind == "gpu" and op.type in CALLS_OF_PYTHON:
            return "GPUs cannot call Python"
        return None

    def _within_clone(self, op: Op) -> bool:
        """Whether an op of a clone is on one of the clone's devices, or may be elsewhere.

        It may be elsewhere by a rule for ops, beside a variable that it follows, or on the CPU if it calls
        Python, works on strings, or works on what was made by these.
        """
        assert op.clone is not None
        tower = self.compiled.plan.towers[op.clone]
        if op.placed.device in tower.devices:
            return True
        reason: Reason | None = op.placed.reason
        if reason is not None and reason.rule is not None and reason.rule.selector.role == "ops":
            return True
        while reason is not None:
            variable = self.compiled.variables.get(reason.text) if reason.kind == "follows" else None
            if variable is not None:
                return any(op.device == variable.device_of(copy) for copy in range(len(variable.copies)))
            reason = reason.cause
        book = Rulebook((), self.compiled.plan.topology)
        if op.placed in [book.on_cpu(kind, tower) for kind in (STRINGS, PYTHON)]:
            return True
        works_on_strings = _gives_strings(op) or any(each.dtype == "string" for each in op.inputs)
        return op.device.kind == "cpu" and works_on_strings


def _are_whole(pieces: Sequence[GraphVariable], shape: Sequence[int]) -> bool:
    """Whether variables are, together and in order, the whole weight."""
    shards = [each.info.shard for each in pieces if each.info.shard is not None]
    if not shards:
        return len(pieces) == 1
    ends = [0, *(each.stop for each in shards)]
    length = prod(shape) if shards[0].flat else shape[shards[0].axis]
    return len(shards) == len(pieces) and [each.start for each in shards] == ends[:-1] and ends[-1] == length


def _gives_strings(op: Op) -> bool:
    for each in op.outputs:  # which is spelled out, because a step has very many ops
        if each.dtype == "string":
            return True
    return declares_strings(op.type)


@cache
def takes_resources(op_type: str) -> bool:
    """Whether ops of a type work on a resource: a variable, a table, an iterator."""
    definition: Any = op_definition(op_type)
    if definition is None:
        return False
    return any(each.type == tf.resource.as_datatype_enum for each in definition.input_arg)


def require_own_devices(compiled: CompiledGraph) -> None:
    """Raise SpecError if a worker's graph has ops on another worker that keeps no variables."""
    plan = compiled.plan
    if not isinstance(plan, WorkerPlan):
        return
    worker = plan.worker
    allowed = {worker.host, *homes_of_variables(compiled)}
    abroad = compiled.exchange.abroad if compiled.exchange is not None else ()
    for name, entry in compiled.ledger.entries.items():
        device = entry.device
        if device.job != PARAMETER_SERVER and device.host not in allowed and name not in abroad:
            span = entry.placed.reason.span or plan.spec.place.span
            ref = f"{worker.host[0]}[{worker.host[1]}]"
            raise SpecError([errors.other_workers_device(span, worker=ref, device=device.ref, op=name)])


def homes_of_variables(compiled: CompiledGraph) -> set[Host]:
    """Return the tasks that keep what workers share between steps."""
    return {each.device.host for each in shared_places(compiled)}


def shared_places(compiled: CompiledGraph) -> Iterator[Placed]:
    """Yield the places of what workers share between steps."""
    exchange = compiled.exchange
    if exchange is not None and exchange.meeting is not None:
        yield exchange.meeting.placed
        return
    yield compiled.ledger.entries[str(compiled.global_step.name).removesuffix(":0")].placed
    for variable in compiled.variables.values():
        for copy in range(len(variable.copies)):
            yield variable.beside(copy)
            yield variable.slot_place(copy)
        if variable.placement.updates is not None:
            yield variable.placement.updates
