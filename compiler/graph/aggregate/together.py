"""Sums of tensors that are written as nodes, and added to the graph together.

An aggregation that adds in pairs has an op for each pair of clones and each variable. TensorFlow's functions
for single ops take about ten times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.ledger import Ledger
from compiler.graph.node_writer import NodeWriter
from compiler.reasons import Placed


@frozen
class Coming:
    """A tensor that has been written, and will be in the graph after `SumWriter.finish`.

    Attributes:
        name: The name of the op that makes it.
        dtype: The type of its elements.
    """

    name: str
    dtype: tf.DType


@define
class SumWriter:
    """Writes sums of tensors, and copies of sums, under the names that TensorFlow's functions give them.

    Attributes:
        graph: The graph.
        ledger: The ledger of the graph.
    """

    graph: tf.Graph = field(repr=False)
    ledger: Ledger = field(repr=False)
    _writer: NodeWriter = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._writer = NodeWriter(self.graph, self.ledger, "aggregate")

    def add(self, name: str, values: Sequence[tf.Tensor | Coming], placed: Placed) -> Coming:
        """Write the sum of some tensors of one shape.

        Args:
            name: The name of the op, with its scopes.
            values: The tensors.
            placed: The place at which they are added.
        """
        node, made = self._node(name, "AddN", values, placed)
        node.attr["N"].i = len(values)
        return made

    def copy(self, name: str, value: tf.Tensor | Coming, placed: Placed) -> Coming:
        """Write a copy of a tensor.

        Args:
            name: The name of the op, with its scopes.
            value: The tensor.
            placed: The place of the copy.
        """
        return self._node(name, "Identity", [value], placed)[1]

    def finish(self) -> None:
        """Add what has been written to the graph."""
        self._writer.finish()

    def made(self, value: Any) -> Any:
        """Return the tensor of the graph, after `finish`, for one that was written; else the value itself."""
        return self.graph.get_tensor_by_name(f"{value.name}:0") if isinstance(value, Coming) else value

    def _node(
        self, name: str, op: str, values: Sequence[tf.Tensor | Coming], placed: Placed
    ) -> tuple[Any, Coming]:
        made = Coming(str(self.graph.unique_name(name)), values[0].dtype)
        inputs = [each.name if isinstance(each, Coming) else self._writer.given(each) for each in values]
        node = self._writer.node(made.name, op, inputs, placed)
        node.attr["T"].type = made.dtype.as_datatype_enum
        return node, made
