"""Many ops written as nodes and added to a graph at once.

TensorFlow's functions for single ops take about ten times as long. This matters where a graph has some ops
for each variable, or for each copy of one. Each time that nodes are added, TensorFlow goes through the whole
graph, so that few nodes are not worth it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.importing import import_nodes
from compiler.graph.ledger import Entry, Ledger
from compiler.reasons import Placed
from compiler.step.record import Role

UNPORTABLE = ("_class", "_gradient_op_type", "_user_specified_name", "_output_shapes")
"""Attributes that name ops or registries of the graph in which a node was made."""


@define
class NodeWriter:
    """Collects nodes, and adds them to a graph.

    Attributes:
        graph: The graph.
        ledger: The ledger of the graph, in which the nodes are entered.
        role: What the nodes are for, unless it is said otherwise of one.
    """

    graph: tf.Graph = field(repr=False)
    ledger: Ledger = field(repr=False)
    role: Role
    _nodes: Any = field(factory=tf.compat.v1.GraphDef, repr=False)
    _outside: dict[str, tf.Tensor] = field(factory=dict, repr=False)

    def given(self, tensor: tf.Tensor) -> str:
        """Return the name that nodes use for a tensor that is in the graph already."""
        self._outside[tensor.name] = tensor
        return str(tensor.name).removesuffix(":0")

    def node(
        self, name: str, op: str, inputs: Sequence[str], placed: Placed, role: Role | None = None
    ) -> Any:
        """Write a node.

        Args:
            name: Its name, which no other op has.
            op: Its type.
            inputs: The names of its inputs: of other nodes, or those that `given` returns.
            placed: Its place.
            role: What it is for.

        Returns:
            The node, for attributes that it needs.
        """
        node = self._nodes.node.add(
            name=name, op=op, device=self.ledger.plan.tensorflow_device(placed.device)
        )
        node.input.extend(inputs)
        self.ledger.enter(name, Entry(placed, role or self.role))
        return node

    def paste(self, nodes: Any, scope: str, placed: Placed, given: Mapping[str, str] | None = None) -> None:
        """Write nodes of another graph.

        Args:
            nodes: The nodes, as a GraphDef.
            scope: What their names begin with here, without a slash at the end.
            placed: The place of all of them.
            given: The names here of inputs that are not among the nodes, by their names there.
        """
        known = {each.signature.name for each in self._nodes.library.function}
        new = (each for each in nodes.library.function if each.signature.name not in known)
        self._nodes.library.function.extend(new)
        for node in nodes.node:
            inputs = [pasted(each, scope, given) for each in node.input]
            self._write(node, f"{scope}/{node.name}", inputs, placed)

    def paste_apart(
        self, nodes: Any, scope: str, placed: Placed, given: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Write nodes of another graph into a scope that may have ops of the same names.

        Args:
            nodes: The nodes, as a GraphDef without functions, in an order in which they could run.
            scope: What their names begin with here, without a slash at the end.
            placed: The place of all of them.
            given: The names here of inputs that are not among the nodes, by their names there.

        Returns:
            The names of the nodes here, by their names there.
        """
        names = dict(given)
        for node in nodes.node:
            names[node.name] = str(self.graph.unique_name(f"{scope}/{node.name}"))
        for node in nodes.node:
            self._write(node, names[node.name], [_named(each, names) for each in node.input], placed)
        return names

    def _write(self, node: Any, name: str, inputs: Sequence[str], placed: Placed) -> None:
        made = self.node(name, node.op, inputs, placed)
        for key, value in node.attr.items():
            if key not in UNPORTABLE:
                made.attr[key].CopyFrom(value)

    def constant(self, name: str, value: Any, dtype: tf.DType, shape: Sequence[int], placed: Placed) -> str:
        """Write a constant, and return its name.

        Args:
            name: Its name.
            value: Its value: a number that all elements are, or one for each of them.
            dtype: Its type.
            shape: Its shape.
            placed: Its place.
        """
        node = self.node(name, "Const", [], placed)
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, shape))
        return name

    def read(self, name: str, handle: tf.Tensor, dtype: tf.DType, placed: Placed) -> str:
        """Write an op that reads a variable, and return its name.

        Args:
            name: Its name.
            handle: The handle of the variable.
            dtype: The type of the variable.
            placed: Its place.
        """
        node = self.node(name, "ReadVariableOp", [self.given(handle)], placed)
        node.attr["dtype"].type = dtype.as_datatype_enum
        return name

    def assign(self, name: str, handle: str, value: str, dtype: tf.DType, placed: Placed) -> str:
        """Write an op that assigns a value to a variable, and return its name.

        Args:
            name: Its name.
            handle: The name of the handle of the variable.
            value: The name of the value.
            dtype: The type of the variable.
            placed: Its place.
        """
        node = self.node(name, "AssignVariableOp", [handle, value], placed)
        node.attr["dtype"].type = dtype.as_datatype_enum
        return name

    def finish(self) -> None:
        """Add the nodes that have been written since the last call to the graph, if there are any."""
        if not self._nodes.node:
            return
        import_nodes(self.graph, self._nodes, self._outside)
        self._nodes, self._outside = tf.compat.v1.GraphDef(), {}


def pasted(name: str, scope: str, given: Mapping[str, str] | None = None) -> str:
    """Return the name that an input of pasted nodes has.

    Args:
        name: Its name in the graph that the nodes are from.
        scope: The scope that they are pasted into.
        given: The names of inputs that are not among the nodes, by their names in that graph.
    """
    if name.startswith("^"):
        return f"^{scope}/{name[1:]}"
    return (given or {}).get(name) or f"{scope}/{name}"


def _named(name: str, names: Mapping[str, str]) -> str:
    """Return an input of a node with another name for the op that makes it."""
    control = "^" if name.startswith("^") else ""
    op, colon, output = name.removeprefix("^").partition(":")
    return f"{control}{names[op]}{colon}{output}"
