"""Variables written as nodes, all at once, because making a tf.Variable op by op takes a millisecond.

The nodes are those of `tf.compat.v1.Variable`: a handle, the op that assigns the first value, a read for
checkpoints and fetches, and an op that tells whether the variable has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.adapters.tensorflow_private import ResourceVariable, VariableDef
from compiler.graph.ledger import Ledger
from compiler.graph.node_writer import NodeWriter, pasted
from compiler.graph.variables.first_values import FirstNodes
from compiler.reasons import Placed

INT32 = tf.int32.as_datatype_enum


Initial: TypeAlias = Callable[[], tf.Tensor] | FirstNodes | float | str
"""A function that makes the first value, nodes that make it, the number that all elements are, or a variable
with that value."""


@frozen
class _Wanted:
    name: str
    shape: tuple[int, ...]
    dtype: str
    initial: Initial
    placed: Placed


@define
class VariableWriter:
    """Collects variables, and adds them to a graph together.

    Attributes:
        graph: The graph.
        ledger: The ledger of the graph.
    """

    graph: tf.Graph = field(repr=False)
    ledger: Ledger = field(repr=False)
    _writer: NodeWriter = field(init=False, repr=False)
    _wanted: list[_Wanted] = field(factory=list, repr=False)

    def __attrs_post_init__(self) -> None:
        self._writer = NodeWriter(self.graph, self.ledger, "init")

    def add(self, name: str, shape: Sequence[int], dtype: str, initial: Initial, placed: Placed) -> None:
        """Ask for a variable.

        Args:
            name: Its name.
            shape: Its shape.
            dtype: The name of its type.
            initial: A function that makes the first value on the variable's device, nodes that make it, the
                number that all its elements are, or a variable with the same first value.
            placed: Its place.
        """
        self._wanted.append(_Wanted(name, tuple(shape), dtype, initial, placed))

    def finish(self) -> dict[str, Any]:
        """Add everything to the graph; return the tf.Variables by name.

        Handles are added first, because nodes cannot be imported under names that others have as their scope.
        """
        for each in self._wanted:
            self._handle(each)
        self._writer.finish()
        initial: dict[str, str] = {}
        for each in self._wanted:
            initial[each.name] = self._assign(each, initial)
        self._writer.finish()
        with self.graph.as_default():
            return {each.name: self._variable(each.name, initial[each.name]) for each in self._wanted}

    def _handle(self, wanted: _Wanted) -> None:
        name, kind = wanted.name, tf.as_dtype(wanted.dtype).as_datatype_enum
        writer, placed = self._writer, wanted.placed
        handle = writer.node(name, "VarHandleOp", [], placed, "variable")
        handle.attr["dtype"].type = kind
        handle.attr["shape"].shape.CopyFrom(tf.TensorShape(wanted.shape).as_proto())
        handle.attr["shared_name"].s = name.encode()
        handle.attr["debug_name"].s = f"{name}/".encode()
        asked = f"{name}/IsInitialized/VarIsInitializedOp"
        writer.node(asked, "VarIsInitializedOp", [name], placed)
        read = writer.node(f"{name}/Read/ReadVariableOp", "ReadVariableOp", [name], placed, "save")
        read.attr["dtype"].type = kind

    def _assign(self, wanted: _Wanted, known: Mapping[str, str]) -> str:
        """Write the op that assigns the first value; return the tensor of that value."""
        name, initial = wanted.name, wanted.initial
        if isinstance(initial, float):
            value = self._filled(wanted, initial)
        elif isinstance(initial, str):
            value = known[initial]
        elif isinstance(initial, FirstNodes):
            self._writer.paste(initial.nodes, f"{name}/Initializer", wanted.placed)
            value = pasted(initial.value, f"{name}/Initializer")
        else:
            with self.ledger.place(wanted.placed, "init"), tf.name_scope(f"{name}/Initializer/"):
                value = self._given(initial().name)
        dtype = tf.as_dtype(wanted.dtype)
        self._writer.assign(f"{name}/Assign", self._given(f"{name}:0"), value, dtype, wanted.placed)
        return value if ":" in value else f"{value}:0"

    def _given(self, tensor: str) -> str:
        """Return the name that nodes use for a tensor that is already in the graph."""
        return self._writer.given(self.graph.get_tensor_by_name(tensor))

    def _variable(self, name: str, initial: str) -> Any:
        variable = ResourceVariable(
            variable_def=VariableDef(
                variable_name=f"{name}:0",
                initializer_name=f"{name}/Assign",
                snapshot_name=f"{name}/Read/ReadVariableOp:0",
                initial_value_name=initial,
                is_resource=True,
            )
        )
        self.graph.add_to_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, variable)
        return variable

    def _filled(self, wanted: _Wanted, value: float) -> str:
        scope, placed, writer = f"{wanted.name}/Initializer", wanted.placed, self._writer
        dtype, rank = tf.as_dtype(wanted.dtype), len(wanted.shape)
        number = writer.constant(f"{scope}/Const", value, dtype, (), placed)
        dims = writer.constant(f"{scope}/Fill/dims", wanted.shape, tf.int32, (rank,), placed)
        fill = writer.node(f"{scope}/Fill", "Fill", [dims, number], placed)
        fill.attr["T"].type = dtype.as_datatype_enum
        fill.attr["index_type"].type = INT32
        return str(fill.name)
