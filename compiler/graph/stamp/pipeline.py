"""Pipelines: micro-batches of a clone that are computed at the same time, each at another stage of its group.

The ops of the tower are written once for each micro-batch. A schedule says in which order a stage takes the
forward and the backward passes; the first ops of each wait for the last ones of that before it. Gradients,
losses and metric states are added in the order of the micro-batches, as the loop does that takes one after
the other, and statistics pass from each to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from attrs import define, evolve, field, frozen

from compiler.figures import gathered, reached
from compiler.graph.stamp.micro_batches import AccumulatedResults, MicroBatches
from compiler.step.record import Op, Tensor
from dsl import ir

Pass: TypeAlias = Literal["forward", "backward"]


def passes(schedule: ir.PipelineSchedule, behind: int, count: int) -> Iterator[tuple[Pass, int]]:
    """Yield the passes of a stage in their order, each with the number of its micro-batch.

    Args:
        schedule: The schedule: `gpipe` has all forward passes first. With `one_f_one_b` a stage is ahead by
            one for each stage behind it, and then does a forward and a backward pass in turn, so that it
            holds activations of no more micro-batches than that, and one.
    """
    ahead = count if schedule == "gpipe" else min(behind, count)
    yield from (("forward", each) for each in range(ahead))
    for each in range(count):
        if each + ahead < count:
            yield "forward", each + ahead
        yield "backward", each


@frozen
class _Task:
    """A pass of a stage, for any micro-batch."""

    stage: int
    kind: Pass
    first: frozenset[str]  # the ops that take nothing of the same pass, by their names without micro-batches
    last: Sequence[str]  # those of whose results the pass takes nothing


@define
class PipelineWriter(MicroBatches):
    """Writes the ops of a tower once for each micro-batch, in the order of a schedule."""

    SCOPE = "pipeline"

    schedule: ir.PipelineSchedule = field(kw_only=True)
    _shared: frozenset[str] = frozenset()  # constants, which all micro-batches have together
    _parts: dict[tuple[str, int], Tensor] = field(factory=dict, repr=False)
    _statistics: dict[str, str] = field(factory=dict, repr=False)  # by their reads: what has the new value
    _added: dict[tuple[str, int], list[str]] = field(factory=dict, repr=False)  # by op and micro-batch
    _takes: dict[str, set[str]] = field(factory=dict, repr=False)  # by op, what it takes that is in the tower

    def write(self) -> AccumulatedResults:
        """Write all micro-batches, and return their results."""
        reads, body = self._begin()
        self._read_body([op for each in body for op in each])
        known = {each.name for each in reads}
        for weight, update in self.template.state_updates.items():
            read = self.tower.op_name(f"{weight}/read")
            if read in known:
                self._statistics[f"{read}:0"] = update
        for number in range(self.count):
            for each in body:
                self.writer.ops.extend([*self._copies(each, number)])
        last = self.count - 1
        results = {update: self._of_batch(update, last) for update in self.template.state_updates.values()}
        self._write_wanted(results)
        ends = [self._write_end(task, number) for task in self._tasks for number in range(self.count)]
        return self._ended(results, ends)

    # --- the schedule -------------------------------------------------------------------------------------

    def _read_body(self, body: Sequence[Op]) -> None:
        self._shared = frozenset(each.name for each in body if each.type == "Const" and not each.waits)
        inside = self._body.keys() - self._shared
        self._takes = {
            each.name: inside.intersection((*(tensor.op for tensor in each.inputs), *each.waits))
            for each in body
            if each.name in inside
        }

    @cached_property
    def _stage(self) -> Mapping[str, int]:
        """The stage of each op that is on a device of the group."""
        numbers = {each: at for at, each in enumerate(self.tower.devices)}
        entries = ((name, self._body[name]) for name in self._takes)
        return {name: numbers[each.device] for name, each in entries if each.device in numbers}

    @cached_property
    def _task_of(self) -> Mapping[str, tuple[int, Pass]]:
        """The pass to which each op belongs.

        What goes against the order of stages, such as a look-up beside a table elsewhere, belongs to none.
        """
        found: dict[str, tuple[int, Pass]] = {}
        lowest = dict[str, int]()
        users = gathered((each, name) for name, taken in self._takes.items() for each in taken)
        # a loop of the forward pass takes in what its gradient wants to be filled
        there = (name for name in self._takes if self._body[name].role != "gradient")
        before = reached(there, self._takes.__getitem__)
        backward = [name for name in self._takes if name not in before]
        forward = [name for name in self._takes if name in before]
        both: tuple[tuple[Pass, Sequence[str], Mapping[str, Iterable[str]]], ...] = (
            ("forward", forward[::-1], users),
            ("backward", backward, self._takes),
        )
        for kind, names, beside in both:
            own = {*names}
            for name in names:
                near = (lowest[each] for each in beside.get(name, ()) if each in lowest and each in own)
                stage = self._stage.get(name)
                least = min([*near, *([] if stage is None else [stage])], default=None)
                if least is not None:
                    lowest[name] = least
                if stage is not None and least == stage:
                    found[name] = (stage, kind)
        return found

    @cached_property
    def _tasks(self) -> Sequence[_Task]:
        ops, found = gathered((task, name) for name, task in self._task_of.items()), []
        for (stage, kind), names in ops.items():
            own = {*names}
            used = {each for name in names for each in self._takes[name]}
            first = frozenset(each for each in names if own.isdisjoint(self._takes[each]))
            found.append(_Task(stage, kind, first, [each for each in names if each not in used]))
        return found

    @cached_property
    def _before(self) -> Mapping[tuple[int, Pass, int], str]:
        """What the first ops of each pass wait for, which is nothing if a stage begins with it."""
        stages = sorted({each.stage for each in self._tasks})
        there = {(each.stage, each.kind) for each in self._tasks}
        found: dict[tuple[int, Pass, int], str] = {}
        for at, stage in enumerate(stages):
            last: str | None = None
            for kind, number in passes(self.schedule, len(stages) - 1 - at, self.count):
                if (stage, kind) in there:
                    if last is not None:
                        found[stage, kind, number] = last
                    last = self._end_name(stage, kind, number)
        return found

    @cached_property
    def _first(self) -> Mapping[str, tuple[int, Pass]]:
        return {name: (task.stage, task.kind) for task in self._tasks for name in task.first}

    def _gate(self, name: str, number: int) -> list[str]:
        """Return what an op waits for because a pass begins with it."""
        task = self._first.get(name)
        before = None if task is None else self._before.get((*task, number))
        return [] if before is None else [before]

    def _end_name(self, stage: int, kind: Pass, number: int) -> str:
        return self._name(f"stage_{stage}/{kind}_{number}")

    def _write_end(self, task: _Task, number: int) -> str:
        """Write the op that waits for the end of a pass."""
        waits = [self._renamed(each, number) for each in task.last]
        waits += [each for name in task.last for each in self._added.get((name, number), ())]
        entry = self._body[task.last[0]]
        return self._of(entry).after(self._end_name(task.stage, task.kind, number), waits, entry.placed)

    # --- micro-batches ------------------------------------------------------------------------------------

    def _copies(self, ops: Sequence[Op], number: int) -> Iterator[Op]:
        """Yield ops of the tower for a micro-batch."""
        for op in ops:
            if op.name not in self._shared:
                name = self._renamed(op.name, number)
                inputs = tuple(self._inside(each, number) for each in op.inputs)
                outputs = tuple(evolve(each, op=name) for each in op.outputs)
                waits = (*(self._renamed(each, number) for each in op.waits), *self._gate(op.name, number))
                yield evolve(op, name=name, inputs=inputs, outputs=outputs, waits=waits)
            elif not number:
                yield op

    def _renamed(self, name: str, number: int) -> str:
        """Return the name of an op of a micro-batch; what is outside of the tower has one name for all."""
        if name not in self._body or name in self._shared:
            return name
        scope = self.tower.scope
        return self.tower.of_batch(name.removeprefix(f"{scope}/") if scope else name, number)

    def _inside(self, tensor: Tensor, number: int) -> Tensor:
        """Return a tensor as a micro-batch has it."""
        if tensor.op in self._body:
            return evolve(tensor, op=self._renamed(tensor.op, number))
        if tensor.name in self._statistics:
            return self._of_batch(self._statistics[tensor.name], number - 1) if number else tensor
        return self._part(tensor, number) if tensor.name in self.sliced else tensor

    def _of_batch(self, name: str, number: int) -> Tensor:
        """Return a tensor of the template as a micro-batch has it."""
        return evolve(self._inside(self.found(name), number), shape=self.template.results[name].shape)

    def _part(self, tensor: Tensor, number: int) -> Tensor:
        """Return the slice of a tensor from outside for a micro-batch, cut when its first stage begins."""
        if (tensor.name, number) not in self._parts:
            entry, scope = self.ledger.entries[tensor.op], self._name(f"part_{len(self._parts)}")
            writer, placed = self._of(entry), entry.placed
            at, axis = (
                self._constant(f"{scope}/{name}", value, "int32", entry)
                for name, value in (("at", number), ("axis", 0))
            )
            stages = sorted({each.stage for each in self._tasks})
            own = [stage for stage in stages if self.tower.devices[stage] == entry.device]
            before = self._before.get(((own or stages)[0], "forward", number))
            (self._parts[tensor.name, number],) = writer.write(
                "GatherV2", f"{scope}/cut", (tensor, at, axis), placed, waits=[before] if before else []
            )
        return self._parts[tensor.name, number]

    # --- what comes out -----------------------------------------------------------------------------------

    def _sum(self, name: str) -> Tensor:
        """Write the sum of a tensor over all micro-batches."""
        entry, scope = self._entry_of(name), self._name(name.replace(":", "_"))
        total = self._of_batch(name, 0)
        for number in range(1, self.count):
            inputs = total, self._of_batch(name, number)
            (total,) = self._of(entry).write("AddV2", f"{scope}/add_{number}", inputs, entry.placed)
            self._added.setdefault((self.found(name).op, number), []).append(total.op)
        return evolve(total, shape=self.template.results[name].shape)

    def _rows(self, name: str) -> Tensor:
        """Write the rows of all micro-batches, concatenated."""
        entry, scope = self._entry_of(name), self._name(name.replace(":", "_"))
        axis = self._constant(f"{scope}/axis", 0, "int32", entry)
        parts = [self._of_batch(name, number) for number in range(self.count)]
        shape = self.template.results[name].shape or (0,)
        lengths = [None if each.shape is None else each.shape[0] for each in parts]
        length = None if None in lengths else sum(each or 0 for each in lengths)
        made = [(parts[0].dtype, (length, *shape[1:]))]
        return self._of(entry).write("ConcatV2", f"{scope}/join", (*parts, axis), entry.placed, made=made)[0]

    def _last(self, name: str) -> Tensor:
        """Return the value of a tensor in the last micro-batch."""
        return self._of_batch(name, self.count - 1)
