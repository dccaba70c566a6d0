"""Sums over workers with graphs of their own: what one of them does of an aggregation over all of them.

An aggregation is written for all workers, as if they shared a graph. Of that, each worker writes the ops on
its own device. What such an op takes from another worker comes as a message: a tensor with the number of the
step, in a queue on the device of the worker that needs it. All workers write the same sums in the same order,
so that they agree on the names of the queues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from compiler.reasons import Placed
from compiler.step.record import Crossing, Op, Rows, Run, Tensor, Value
from compiler.step.sums.base import Aggregation, Reduction
from compiler.step.values import dense, pack, unpack
from compiler.step.writer import Spot, StepWriter

SCOPE = "mail"
NO_STEP = -1
"""The number of a message that ends the wait for one, and is of no step."""


@frozen
class Inbox:
    """The messages for one worker, between steps."""

    sizes: Any = field(repr=False)  # how many messages wait in each queue; a vector
    drops: tuple[Any, ...] = field(repr=False)  # for each queue, the op that takes a message out
    # Puts a message of no step into each queue, so that a step that waits for one fails.
    wake: Any = field(repr=False)


@define
class Between:
    """The sums of a step over all workers, of which one worker writes its part."""

    writer: StepWriter = field(repr=False)
    places: Sequence[Placed]  # the place of each worker's part
    own: int
    step: Tensor  # the number of the step, a scalar of dtype int64 that is the same for all workers
    aggregation: Aggregation = field(repr=False)
    sends: list[Run] = field(factory=list)
    # All messages of a step, those between other workers too.
    crossings: list[Crossing] = field(factory=list, repr=False)
    # The names of the ops on the devices of other workers.
    abroad: list[str] = field(factory=list, repr=False)
    _whole: StepWriter = field(factory=lambda: StepWriter("aggregate"), init=False, repr=False)
    _homes: dict[str, int] = field(factory=dict, init=False, repr=False)  # by op of all workers
    _known: dict[str, Tensor] = field(factory=dict, init=False, repr=False)  # this worker's, by name there
    _queues: list[tuple[Tensor, str]] = field(factory=list, init=False, repr=False)  # with their types

    def sum(
        self, name: str, value: Value, aggregation: Aggregation | None = None, owner: int | None = None
    ) -> Value | None:
        """Return the sum of a value over all workers.

        Args:
            name: A name, which is the same for all workers.
            value: The value of this worker. Those of the others have its type and, but for rows, its shape.
            aggregation: The algorithm, if it is another one.
            owner: The worker that alone needs the sum; None if all do.

        Returns:
            The sum on the device of this worker; rows have distinct indices. None if this worker needs none.
        """
        values = [
            self._stand_in(f"{name}/worker_{worker}", value, worker) for worker in range(len(self.places))
        ]
        return self._joined(name, values, aggregation or self.aggregation, owner)

    def _joined(
        self, name: str, values: Sequence[Value], aggregation: Aggregation, owner: int | None = None
    ) -> Value | None:
        """Return what an aggregation makes of what stands for the values of all workers, as `sum` does."""
        number, ends = self._whole.next_number("sums") - 1, self.places
        if owner is not None:
            ends = [self.places[owner]]
        found = aggregation(
            Reduction(f"workers/{name}", values, self.places, ends, self._whole, number, owner)
        )
        for each in self._whole.take():
            assert isinstance(each, Op)  # aggregations use no fragments
            self._project(each)
        if owner not in {None, self.own}:
            return None
        made = found[self.own if owner is None else 0]
        if isinstance(made, Rows):
            return Rows(self._here(made.values, self.own), self._here(made.indices, self.own))
        return self._here(made, self.own)

    def gather(self, name: str, own: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
        """Return what each worker has of some tensors of one type, on the device of this worker.

        Args:
            name: A name, which is the same for all workers.
            own: The tensors of this worker. Those of the others have their shapes, which are known.
        """
        writer, here = self.writer, self.places[self.own]
        line, everyone = pack(writer, name, own, here), len(self.places)
        whole = self.lines(name, line, [line.elements or 0] * everyone)
        shapes = [each.known_shape or () for each in own] * everyone
        found = unpack(writer, name, whole, shapes, here, ("split", "part"))
        return list(zip(*[iter(found)] * len(own), strict=True))

    def lines(self, name: str, own: Tensor, sizes: Sequence[int]) -> Tensor:
        """Return the lines of all workers, one after another, on the device of this worker.

        Args:
            name: A name, which is the same for all workers.
            sizes: How many each worker has.
        """
        values = [
            self._one(f"{name}/worker_{worker}", evolve(own, shape=(size,)), worker)
            for worker, size in enumerate(sizes)
        ]
        return dense(self._joined(name, values, _gathered))

    def inbox(self, scope: str) -> Inbox:
        """Write the ops with which a process looks after the messages of this worker."""
        at = Spot(self.writer, scope, self.places[self.own])
        sizes = [at.op("QueueSizeV2", "size", queue)[0] for queue, _ in self._queues]
        if sizes:
            (packed,) = at.op("Pack", "sizes", *sizes)
        else:  # a worker alone
            packed = at.writer.constant(at.name("sizes"), [], "int32", at.placed)
        number = at.writer.constant(at.name("no_step"), NO_STEP, "int64", at.placed)
        drops, wakes = list[Run](), list[str]()
        for queue, dtype in self._queues:
            told = {"component_types": ["int64", dtype]}
            own = at.name("drop")
            at.writer.write("QueueDequeueV2", own, (queue,), at.placed, told)
            drops.append(Run(own))
            nothing = at.writer.constant(at.name("nothing"), 0, dtype, at.placed, (0,))
            wakes.append(
                at.run("QueueEnqueueV2", "wake", queue, number, nothing, Tcomponents=["int64", dtype])
            )
        return Inbox(packed, tuple(drops), Run(at.writer.after(at.name("awake"), wakes, at.placed)))

    def _stand_in(self, name: str, value: Value, worker: int) -> Value:
        """Return what stands for the value of a worker where the sum of all is written."""
        if isinstance(value, Rows):
            return Rows(
                self._one(f"{name}/values", value.values, worker),
                self._one(f"{name}/indices", value.indices, worker),
            )
        return self._one(name, value, worker)

    def _one(self, name: str, value: Tensor, worker: int) -> Tensor:
        found = Tensor(name, value.dtype, value.shape)
        self._homes[name] = worker
        if worker == self.own:
            self._known[found.name] = value
        return found

    def _project(self, op: Op) -> None:
        """Write an op if it is this worker's, and the messages for it that this worker sends or receives."""
        hosts = [each.device.host for each in self.places]
        worker = self._homes[op.name] = hosts.index(op.device.host)
        taken = [self._here(each, worker) for each in op.inputs]
        if worker != self.own:
            return
        name, made = self.writer.unique(op.name), [(each.dtype, each.shape) for each in op.outputs]
        outputs = self.writer.write(op.type, name, taken, op.placed, op.attributes, made=made)
        self._known |= {each.name: own for each, own in zip(op.outputs, outputs, strict=True)}

    def _here(self, tensor: Tensor, worker: int) -> Tensor:
        """Return a tensor as an op of a worker has it, sent to that worker if it is another's."""
        source = self._homes[tensor.op]
        crossing = Crossing(tensor, source, worker)
        if source != worker and crossing not in self.crossings:
            self.crossings.append(crossing)
            if source == self.own:
                self._send(crossing)
            elif worker == self.own:
                self._receive(crossing)
        return self._known.get(tensor.name, tensor)

    def _queue(self, crossing: Crossing) -> tuple[Spot, Tensor, Mapping[str, Any]]:
        name = f"{SCOPE}/{crossing.tensor.op}"
        if crossing.tensor.output:
            name += f"_{crossing.tensor.output}"
        at = Spot(self.writer, f"{name}/to_{crossing.target}", self.places[crossing.target])
        told = ["int64", crossing.tensor.dtype]
        # servers may outlast a graph, and the next one may send another type under the same name
        shared = {"component_types": told, "shared_name": f"{at.scope}/{crossing.tensor.dtype}"}
        return at, at.op("FIFOQueueV2", "queue", **shared)[0], {"component_types": told}

    def _send(self, crossing: Crossing) -> None:
        at, queue, told = self._queue(crossing)
        value = self._known[crossing.tensor.name]
        put = at.run("QueueEnqueueV2", "put", queue, self.step, value, Tcomponents=told["component_types"])
        self.sends.append(Run(put))
        self.abroad += [queue.op, put]

    def _receive(self, crossing: Crossing) -> None:
        """Write what waits for a message, and fails if it is not one of this step."""
        at, queue, told = self._queue(crossing)
        self._queues.append((queue, crossing.tensor.dtype))
        made = [("int64", ()), (crossing.tensor.dtype, crossing.tensor.shape)]
        number, value = at.writer.write(
            "QueueDequeueV2", at.name("take"), (queue,), at.placed, told, made=made
        )
        (same,) = at.op("Equal", "same", number, self.step)
        checked = at.run("Assert", "checked", same, number, T=["int64"])
        self._known[crossing.tensor.name] = at.waiting([checked]).op("Identity", "value", value)[0]


def _gathered(reduction: Reduction) -> list[Value]:
    """Send the values of all workers to each, one after another in their order."""
    values = list(map(dense, reduction.values))
    return [
        reduction.writer.concat(f"{reduction.scope}/gathered_{rank}", values, 0, place)
        for rank, place in enumerate(reduction.destinations)
    ]
