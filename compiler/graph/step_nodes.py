"""Parts of a step between functions of TensorFlow, by which other parts are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.ledger import Entry, Ledger
from compiler.step.record import Op, Role, Rows, Tensor, Value
from compiler.step.writer import StepWriter


@define
class GraphStep:
    """A part of a step that is written into a graph.

    Attributes:
        ledger: The ledger of the graph, in which the ops are entered.
        role: What the ops are for.
        writer: Writes the ops.
    """

    ledger: Ledger = field(repr=False)
    role: Role
    writer: StepWriter = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.writer = StepWriter(self.role, self.ledger.draft.unique)

    def given(self, value: Any) -> Value:
        """Return the record of a tensor of the graph, or of rows.

        Args:
            value: A tensor, or IndexedSlices.
        """
        if isinstance(value, tf.IndexedSlices):
            return Rows(self.tensor(value.values), self.tensor(value.indices))
        return self.tensor(value)

    def made(self, value: Value) -> Any:
        """Return the tensor of the graph that a record stands for, or the rows, after `finish`."""
        if isinstance(value, Rows):
            merged = value.merged
            before = None if merged is None else lambda: self.made(merged)
            return SummedRows(self.made(value.values), self.made(value.indices), before)
        return self.ledger.draft.tensor(value.name, value.shape)

    def finish(self) -> None:
        """Add the ops that have been written since the last call to the graph."""
        ops = self.writer.take()
        for each in ops:
            if isinstance(each, Op):
                self.ledger.enter(each.name, Entry(each.placed, each.role, each.clone))
            else:
                for own in each.ops:
                    entry = Entry(each.place_of(own), each.role_of(own), each.clone)
                    self.ledger.enter(each.names[own], entry)
        self.ledger.draft.add(ops)

    def variable(self, variable: Any) -> Tensor:
        """Return the record of the handle of a variable."""
        found: Tensor = variable.tensor
        return found

    def op(self, name: str) -> tf.Operation:
        """Return an op that was written, after `finish`."""
        return self.ledger.draft.op(name)

    def tensor(self, tensor: tf.Tensor) -> Tensor:
        """Return the record of a tensor of the graph."""
        shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
        return Tensor(tensor.op.name, tensor.dtype.name, shape, tensor.value_index)


class SummedRows(tf.IndexedSlices):  # type: ignore[misc] # TensorFlow has no types
    """Rows in a graph, which may be the sums of others on their device.

    Attributes:
        before: Returns the others; None if it is not known that there are some.
    """

    def __init__(
        self, values: tf.Tensor, indices: tf.Tensor, before: Callable[[], tf.IndexedSlices] | None
    ) -> None:
        super().__init__(values, indices)
        self.before = before
