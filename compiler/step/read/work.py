"""The work of a step, as records for the forecast of its time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
from attrs import define, evolve, field

from compiler.plan import WorkerPlan
from compiler.process import cores
from compiler.step.edges import Numbers
from compiler.step.read.costs import Cost, cost_of
from compiler.step.read.rows import RowCounts
from compiler.step.read.workers import GraphPart, StepParts, steps_between, steps_of_all, work_of
from compiler.step.record import HANDLES, Op, Tensor
from compiler.step.step import Step
from compiler.time.costs import choose_costs
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.profile import FoundProfile
from compiler.time.work import Arrow, Signature, StepWork, TimedOp, scope_of

_GRADIENTS = ("aggregate", "gradient")
"""The roles of ops that make gradients or add them up."""

MOST_APART = 16
"""Of how many workers at most, which send each other sums, a step is forecast: all graphs are compiled."""

_LOOP_STARTS, _LOOP_ENDS, _BACK = ("Enter", "RefEnter"), ("Exit", "RefExit"), ("NextIteration", "Merge")


def forecast_time(step: Step, machine: FoundProfile | None) -> StepForecast | None:
    """Return the forecast of the time of a step, or None if nothing is known to forecast it from.

    That of more than `MOST_APART` workers which send each other sums is not forecast: these wait for each
    other inside of a step, and no worker's part is like that of another.

    Args:
        machine: The profile of the machine; without one, the spec must name its hardware (`devices.kind`).
    """
    devices = step.plan.spec.devices
    apart = isinstance(step.plan, WorkerPlan) and step.crossings and step.plan.worker.count > MOST_APART
    if apart or (machine is None and devices.kind is None):
        return None
    work = timed_step(step)
    costs = choose_costs(work, devices, machine, cores())
    return forecast_step(work, costs) if costs is not None else None


def timed_step(step: Step) -> StepWork:
    """Return the work of a step; if each worker has a graph of its own, that of the steps of all."""
    if not isinstance(step.plan, WorkerPlan):
        return graph_step(step)
    if step.crossings:
        return steps_between(step.plan, [step_parts(each) for each in step.everyone])
    return steps_of_all(step.plan, step_parts(step))


def step_parts(step: Step) -> StepParts:
    """Return the parts of a step of the chief."""
    ends = step.ends
    assert ends.of_worker
    needed = step.edges.needed_for
    chief = read_part(step, needed(ends.of_worker))
    if not ends.of_chief:
        return StepParts(chief)
    shared = read_part(step, needed(ends.shared)) if ends.shared else None
    return StepParts(chief, read_part(step, needed(ends.of_chief)), shared)


def graph_step(step: Step) -> StepWork:
    """Return the work of a step, of which all that is in its graph runs at once."""
    loops = [step.edges.needed_for(ends) for ends in step.ends.loops]
    needed = np.logical_or.reduce([step.runs, *loops])
    found = work_of(step.plan, read_part(step, needed))
    return evolve(found, loops=tuple(tuple(np.flatnonzero(loop[needed]).tolist()) for loop in loops))


def read_part(step: Step, needed: Numbers) -> GraphPart:
    """Return some ops of a step, and what they wait for."""
    return _Reader(step, needed).read()


@define
class _Reader:
    step: Step
    needed: Numbers  # whether each op of the step is one of them
    ops: list[Op] = field(init=False, repr=False)
    counts: RowCounts = field(init=False, repr=False)
    numbers: dict[str, int] = field(init=False, repr=False)
    signatures: dict[Signature, Signature] = field(factory=dict, repr=False)
    of_towers: dict[Hashable, Cost] = field(factory=dict, repr=False)  # by the name in the tower, and shapes

    def __attrs_post_init__(self) -> None:
        self.ops = self.step.edges.chosen(self.needed)
        self.numbers = {op.name: at for at, op in enumerate(self.ops)}
        self.counts = RowCounts(self.step.ops)

    def read(self) -> GraphPart:
        looped = self._in_loop()
        common = self.step.runs_by_all if self.step.ends.of_worker else self.needed
        ops = tuple(self._timed(op, looped=op.name in looped) for op in self.ops)
        numbered = list(enumerate(self.ops))
        return GraphPart(
            ops,
            tuple(self._arrows()),
            own=frozenset(at for at, op in numbered if op.own),
            gradients=frozenset(at for at, op in numbered if op.role in _GRADIENTS),
            of_chief=frozenset(np.flatnonzero(~common[self.needed]).tolist()),
            puts=self._on_queues("QueueEnqueueV2"),
            takes=self._on_queues("QueueDequeueV2"),
        )

    def _on_queues(self, kind: str) -> dict[str, int]:
        """Return the ops of a type that work on queues, by the names of these."""
        found = ((op.inputs[0].op, at) for at, op in enumerate(self.ops) if op.type == kind)
        return {self.step.ops[queue].attributes["shared_name"]: at for queue, at in found}

    def _in_loop(self) -> set[str]:
        """Return the ops that run once for each micro-batch."""
        found = set[str]()
        if not self.step.plan.loops:
            return found
        users: dict[str, list[Op]] = {}
        for op in self.ops:
            for tensor in op.inputs:
                users.setdefault(tensor.op, []).append(op)
        pending = [op for op in self.ops if op.type in _LOOP_STARTS]
        while pending:
            op = pending.pop()
            if op.name not in found and op.type not in _LOOP_ENDS:
                found.add(op.name)
                pending += users.get(op.name, ())
        return found

    def _timed(self, op: Op, *, looped: bool) -> TimedOp:
        signature, operations, moved = self._cost(op)
        rounds = self.step.plan.micro_batches if looped else 1
        return TimedOp(
            name=op.name,
            signature=signature,
            device=op.device,
            flops=operations,
            bytes=moved,
            times=rounds,
            rounds=rounds,
            clone=op.clone,
            scope=scope_of(self._inner(op)),
            rule=op.placed.reason.root.text,
            enters=self._mutex(op) if op.type == "MutexLock" else "",
            leaves=self._mutex(self.step.ops[op.inputs[0].op]) if op.type == "ConsumeMutexLock" else "",
        )

    def _inner(self, op: Op) -> str:
        """Return the name of an op inside its clone and its micro-batch, if it is of one."""
        return op.name if op.clone is None else self.step.plan.towers[op.clone].inner_name(op.name)

    def _cost(self, op: Op) -> Cost:
        """Return the cost of an op; that of a tower is found once for all towers with these shapes."""
        sized = self.counts.sized(self.step.ops[op.name])
        if op.clone is None:
            return self._cost_of(op, sized)
        key = (
            self._inner(op),
            op.type,
            *(each.shape for each in sized.inputs),
            "made",
            *(each.shape for each in sized.outputs),
        )
        found = self.of_towers.get(key)
        if found is None:
            found = self.of_towers[key] = self._cost_of(op, sized)
        return found

    def _cost_of(self, op: Op, sized: Op) -> Cost:
        signature, operations, moved = cost_of(op, sized, self.step.ops)
        same = self.signatures.setdefault(signature, signature)  # equal ones are compared often
        return same, operations, moved

    def _mutex(self, lock: Op) -> str:
        """Return the name of the mutex that an op locks; each device has its own by a name."""
        mutex = self.step.ops[lock.inputs[0].op]
        return f"{lock.device.ref}:{mutex.attributes['shared_name']}"

    def _arrows(self) -> Iterator[Arrow]:
        sizes: dict[int, int] = {}  # by the identity of the record of a tensor
        for target, op in enumerate(self.ops):
            merges = op.type == _BACK[1]
            for tensor in op.inputs:
                source = self.numbers.get(tensor.op)
                if source is None or (merges and self.ops[source].type == _BACK[0]):
                    continue
                size = sizes.get(id(tensor))
                if size is None:
                    size = sizes[id(tensor)] = 0 if tensor.dtype in HANDLES else self._bytes(tensor)
                yield Arrow(source, target, tensor.name, size)
            for before in op.waits:
                if before in self.numbers:
                    yield Arrow(self.numbers[before], target)

    def _bytes(self, tensor: Tensor) -> int:
        made = self.counts.sized(self.step.ops[tensor.op]).outputs
        return (made[tensor.output] if tensor.output < len(made) else tensor).bytes or 0
