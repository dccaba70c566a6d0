"""Accumulation of gradients: a loop in which the ops of a tower run once for each micro-batch of a step.

The loop is made of TensorFlow's control flow ops, which are written around the tower's ops, so that every
op keeps its name and its device. Variables are read once, before the loop. Gradients, losses and metric
states are summed over the iterations. Each iteration starts from the batch-normalization statistics of the
one before it. Iterations do not overlap, so a step needs the memory of one micro-batch and of one gradient
for each variable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from attrs import define, evolve, field, frozen

from compiler.graph.ledger import Ledger, entries_of
from compiler.graph.step_records import used_ops
from compiler.graph.tower.template import Template
from compiler.plan import Tower
from compiler.reasons import Placed
from compiler.step.record import Entered, Entry, Op, Shape, Tensor, Use
from compiler.step.writer import StepWriter


@frozen
class AccumulatedResults:
    """The results of a tower's loop."""

    results: Mapping[str, Tensor]  # the tensors of the template over all micro-batches, by their names there
    ended: str  # the op after which nothing of the loop runs any more


@frozen
class _Carried:
    """A loop variable: its value in an iteration (`now`) and after the loop (`after`)."""

    now: Tensor
    after: Tensor
    scope: str
    entry: Entered


@define
class MicroBatches:
    """Writes the micro-batches of a tower."""

    SCOPE: ClassVar[str]  # what the names of its own ops begin with in the tower

    template: Template
    tower: Tower
    ops: Sequence[Op | Use] = field(repr=False)  # the ops of the tower as they are for a single one
    # Returns a tensor of the tower as it is for a single one, by its name in the template.
    found: Callable[[str], Tensor] = field(repr=False)
    # The tensors from outside of which each micro-batch has its own slice along the first axis.
    sliced: frozenset[str]
    count: int
    ledger: Ledger = field(repr=False)
    writer: StepWriter = field(repr=False)
    _body: dict[str, Entered] = field(factory=dict, repr=False)

    @abstractmethod
    def write(self) -> AccumulatedResults:
        """Write them, and return their results."""

    def _begin(self) -> tuple[list[Op], list[list[Op]]]:
        """Write the reads of weights, which are done once; return them, and what micro-batches do.

        Ops of a fragment are written one by one, behind a use of it without ops, which has their functions.
        """
        reads = [each for each in self.ops if isinstance(each, Op) and each.role == "read"]
        others = [each for each in self.ops if isinstance(each, Use) or each.role != "read"]
        self._body |= entries_of(others)
        self.writer.ops.extend(reads)
        self.writer.ops.extend(evolve(each, ops=()) for each in others if isinstance(each, Use))
        return reads, [[each] if isinstance(each, Op) else [*used_ops(each)] for each in others]

    def _wanted(self) -> Iterator[tuple[str, Callable[[str], Tensor]]]:
        """Yield the tensors of the template that the rest of the step uses, with what writes each."""
        template = self.template
        for part in template.losses:
            for tensor in part.tensors:
                yield tensor, self._mean
        for states in template.metric_states.values():
            for state in states:
                yield state, self._sum
        for gradient in template.gradients:
            yield gradient.values, self._sum if gradient.indices is None else self._rows
            if gradient.indices is not None:
                yield gradient.indices, self._rows
        for each in dict.fromkeys(template.outputs):
            yield each, self._last

    def _write_wanted(self, results: dict[str, Tensor]) -> None:
        """Write the tensors that the rest of the step uses and that `results` lacks, and add them to it."""
        for name, write in self._wanted():
            if name not in results:
                results[name] = write(name)

    def _ended(self, results: Mapping[str, Tensor], after: Sequence[str]) -> AccumulatedResults:
        """Write the op after which nothing runs any more: after some ops, and after those of the results."""
        own, waits = self._own, [*after, *(each.op for each in results.values())]
        return AccumulatedResults(results, self._of(own).after(self._name("ended"), waits, own.placed))

    @abstractmethod
    def _sum(self, name: str) -> Tensor:
        """Write the sum of a tensor over all micro-batches."""

    def _mean(self, name: str) -> Tensor:
        """Write the mean of a number over all micro-batches."""
        total, entry = self._sum(name), self._entry_of(name)
        part = self._constant(f"{total.op}/part", 1 / self.count, total.dtype, entry)
        return self._of(entry).write("Mul", f"{total.op}/mean", (total, part), entry.placed)[0]

    @abstractmethod
    def _rows(self, name: str) -> Tensor:
        """Write the rows of all micro-batches, concatenated."""

    @abstractmethod
    def _last(self, name: str) -> Tensor:
        """Return the value of a tensor in the last micro-batch."""

    @property
    def _own(self) -> Entered:
        return Entry(Placed(self.tower.device, self.tower.reason), "forward", self.tower.index)

    def _name(self, inner: str) -> str:
        return self.tower.op_name(f"{self.SCOPE}/{inner}")

    def _of(self, entry: Entered) -> StepWriter:
        return self.writer.on(entry.role, entry.clone)

    def _entry_of(self, name: str) -> Entered:
        """Return the place where a tensor of the template is made; for an input, the place of that input."""
        op = self.found(name).op
        return self._body.get(op) or self.ledger.entries[op]

    def _constant(self, name: str, value: Any, dtype: str, entry: Entered) -> Tensor:
        return self._of(entry).constant(name, value, dtype, entry.placed)


@define
class MicroBatchWriter(MicroBatches):
    """Writes a loop over micro-batches around the ops of a tower."""

    SCOPE = "accumulate"

    _entered: dict[tuple[str, str], Tensor] = field(factory=dict, repr=False)
    _parts: dict[str, Tensor] = field(factory=dict, repr=False)
    _statistics: dict[str, Tensor] = field(factory=dict, repr=False)  # by their reads: in this iteration
    _iteration: Any = None  # the number of the iteration
    _goes_on: Any = None  # whether there is another iteration

    def write(self) -> AccumulatedResults:
        """Write the loop, and return its results."""
        reads, body = self._begin()
        after = [self._count_micro_batches().op]
        statistics = self._carry_statistics({each.name for each in reads})
        for each in body:
            self.writer.ops.extend([self._with_inside(op) for op in each])
        results = {name: self._next(each, self._now(name, each.entry)) for name, each in statistics.items()}
        self._write_wanted(results)
        return self._ended(results, after)

    # --- the loop itself ----------------------------------------------------------------------------------

    def _count_micro_batches(self) -> Tensor:
        """Write the count of the micro-batches and the condition; return the count after the loop."""
        scope, own = self._name("round"), self._own
        writer, placed = self._of(own), own.placed
        zero = writer.constant(f"{scope}/zero", 0, "int32", placed)
        limit = self._enter(writer.constant(f"{scope}/count", self.count, "int32", placed), own)
        merged = self._merge(scope, zero, own)
        (less,) = writer.write("Less", f"{scope}/less", (merged, limit), placed)
        (self._goes_on,) = writer.write("LoopCond", f"{scope}/goes_on", (less,), placed)
        counted = self._switch(scope, merged, own)
        self._iteration = counted.now
        one = self._enter(writer.constant(f"{scope}/one", 1, "int32", placed), own)
        return self._next(counted, writer.write("AddV2", f"{scope}/add", (counted.now, one), placed)[0])

    def _carry(
        self,
        name: str,
        initial: Tensor,
        entry: Entered,
        shape: Shape | None = None,
        after: Shape | None = None,
    ) -> _Carried:
        """Write a loop variable, of some shape in every iteration, and of another one after the loop."""
        scope = self._name(name.replace(":", "_"))
        return self._switch(scope, self._merge(scope, initial, entry, shape), entry, after)

    def _merge(self, scope: str, initial: Tensor, entry: Entered, shape: Shape | None = None) -> Tensor:
        entered = self._enter_op(f"{scope}/enter", initial, entry, constant=False)
        known = evolve(entered, shape=entered.shape if shape is None else shape)
        later = Tensor(f"{scope}/next", initial.dtype, known.shape)
        made = [(known.dtype, known.shape), ("int32", ())]
        return self._of(entry).write("Merge", f"{scope}/merge", (entered, later), entry.placed, made=made)[0]

    def _switch(self, scope: str, merged: Tensor, entry: Entered, shape: Shape | None = None) -> _Carried:
        writer, placed = self._of(entry), entry.placed
        switch = writer.write("Switch", f"{scope}/switch", (merged, self._goes_on), placed)
        (now,) = writer.write("Identity", f"{scope}/now", (switch[1],), placed)
        made = [(merged.dtype, merged.shape if shape is None else shape)]
        (after,) = writer.write("Exit", f"{scope}/after", (switch[0],), placed, made=made)
        return _Carried(now, after, scope, entry)

    def _next(self, carried: _Carried, value: Tensor) -> Tensor:
        """Pass `value` on to the next iteration; return its last value, after the loop."""
        entry = carried.entry
        self._of(entry).write("NextIteration", f"{carried.scope}/next", (value,), entry.placed)
        return carried.after

    # --- what goes in -------------------------------------------------------------------------------------

    def _with_inside(self, op: Op) -> Op:
        """Return an op of the tower whose inputs from outside enter the loop.

        Ops outside have run before the loop. An op without an input would not belong to it.
        """
        entry = self._body[op.name]
        inputs = tuple(self._inside(each, entry) for each in op.inputs)
        kept = tuple(each for each in op.waits if each in self._body)
        alone = () if inputs or kept else (self._iteration.op,)
        return evolve(op, inputs=inputs, waits=(*kept, *alone))

    def _inside(self, tensor: Tensor, entry: Entered) -> Tensor:
        """Return a tensor in the loop, as an input of the op of `entry`."""
        if tensor.op in self._body:
            return tensor
        if tensor.name in self._statistics:
            return self._statistics[tensor.name]
        return self._part(tensor) if tensor.name in self.sliced else self._enter(tensor, entry)

    def _part(self, tensor: Tensor) -> Tensor:
        """Return the slice of a tensor from outside for this iteration, cut on the tensor's device."""
        if tensor.name not in self._parts:
            entry, scope = self.ledger.entries[tensor.op], self._name(f"part_{len(self._parts)}")
            writer, placed = self._of(entry), entry.placed
            axis = writer.constant(f"{scope}/axis", 0, "int32", placed)
            inputs = (self._enter(tensor, entry), self._iteration, self._enter(axis, entry))
            (self._parts[tensor.name],) = writer.write("GatherV2", f"{scope}/cut", inputs, placed)
        return self._parts[tensor.name]

    def _enter(self, tensor: Tensor, entry: Entered) -> Tensor:
        """Return a tensor from outside that is the same in every micro-batch, on the device of `entry`."""
        key = (tensor.name, entry.device.ref)
        if key not in self._entered:
            scope = self._name(f"enter_{len(self._entered)}")
            self._entered[key] = self._enter_op(scope, tensor, entry, constant=True)
        return self._entered[key]

    def _enter_op(self, name: str, tensor: Tensor, entry: Entered, *, constant: bool) -> Tensor:
        told = {
            "frame_name": self.tower.op_name(self.SCOPE),
            "is_constant": constant,
            "parallel_iterations": 1,
        }
        (made,) = self._of(entry).write("Enter", name, (tensor,), entry.placed, told)
        return evolve(made, holds=tensor.holds)

    # --- what comes out -----------------------------------------------------------------------------------

    def _carry_statistics(self, reads: set[str]) -> dict[str, _Carried]:
        """Pass statistics from iteration to iteration.

        Returns:
            The last value of each, by the template's name of the new value.
        """
        found: dict[str, _Carried] = {}
        for weight, update in self.template.state_updates.items():
            read, scope = self.tower.op_name(f"{weight}/read"), f"state/{weight}"
            entry, info = self._entry_of(update), self.template.results[update]
            if read in reads:
                initial = Tensor(read, info.dtype, info.shape)
            else:
                initial = self._constant(self._name(f"{scope}/zero"), 0, info.dtype, entry)
            found[update] = self._carry(scope, initial, entry, info.shape)
            if read in reads:
                self._statistics[initial.name] = found[update].now
        return found

    def _sum(self, name: str) -> Tensor:
        """Write the sum of a tensor over all micro-batches."""
        entry = self._entry_of(name)
        carried = self._carry(name, self._zeros(name, self.template.results[name].shape or (), entry), entry)
        inputs = (carried.now, self._now(name, entry))
        (added,) = self._of(entry).write("AddV2", f"{carried.scope}/add", inputs, entry.placed)
        return self._next(carried, added)

    def _rows(self, name: str) -> Tensor:
        """Write the rows of all micro-batches, concatenated."""
        entry, (rows, *of_row) = self._entry_of(name), self.template.results[name].shape or (0,)
        shape, every = tuple(of_row), None if rows is None else rows * self.count
        start = self._zeros(name, (0, *shape), entry)
        carried = self._carry(name, start, entry, (None, *shape), after=(every, *shape))
        axis = self._enter(self._constant(f"{carried.scope}/axis", 0, "int32", entry), entry)
        inputs, made = (carried.now, self._now(name, entry), axis), [(carried.now.dtype, (None, *shape))]
        (joined,) = self._of(entry).write(
            "ConcatV2", f"{carried.scope}/join", inputs, entry.placed, made=made
        )
        return self._next(carried, joined)

    def _last(self, name: str) -> Tensor:
        """Write the value of a tensor in the last iteration."""
        entry, info = self._entry_of(name), self.template.results[name]
        scope = "output" if name == self.template.outputs[0] else f"output/{name.replace(':', '_')}"
        none = "" if info.dtype == "string" else 0
        nothing = self._constant(self._name(f"{scope}/none"), none, info.dtype, entry)
        return self._next(self._carry(scope, nothing, entry, info.shape), self._now(name, entry))

    def _now(self, name: str, entry: Entered) -> Tensor:
        """Return a tensor of the template as it is in this iteration."""
        return self._inside(self.found(name), entry)

    # --- ops ----------------------------------------------------------------------------------------------

    def _zeros(self, name: str, shape: Sequence[int | None], entry: Entered) -> Tensor:
        scope, writer = self._name(f"{name.replace(':', '_')}/start"), self._of(entry)
        sizes = writer.constant(f"{scope}/shape", [each or 0 for each in shape], "int32", entry.placed)
        zero = self._constant(f"{scope}/zero", 0, self.template.results[name].dtype, entry)
        made = [(zero.dtype, tuple(shape))]
        return writer.write("Fill", f"{scope}/zeros", (sizes, zero), entry.placed, made=made)[0]
