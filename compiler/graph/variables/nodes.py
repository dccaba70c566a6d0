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
from compiler.graph.importing import import_nodes
from compiler.graph.ledger import Entry, Ledger
from compiler.graph.tower.template import Role
from compiler.reasons import Placed

INT32 = tf.int32.as_datatype_enum


Initial: TypeAlias = Callable[[], tf.Tensor] | float | str
"""A function that makes the first value, the number that all elements are, or a variable with that value."""


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
    _wanted: list[_Wanted] = field(factory=list, repr=False)
    _nodes: Any = field(factory=tf.compat.v1.GraphDef, repr=False)
    _outside: dict[str, tf.Tensor] = field(factory=dict, repr=False)

    def add(self, name: str, shape: Sequence[int], dtype: str, initial: Initial, placed: Placed) -> None:
        """Ask for a variable.

        Args:
            name: Its name.
            shape: Its shape.
            dtype: The name of its type.
            initial: A function that makes the first value on the variable's device, the number that all its
                elements are, or a variable with the same first value.
            placed: Its place.
        """
        self._wanted.append(_Wanted(name, tuple(shape), dtype, initial, placed))

    def finish(self) -> dict[str, Any]:
        """Add everything to the graph; return the tf.Variables by name.

        Handles are added first, because nodes cannot be imported under names that others have as their scope.
        """
        for each in self._wanted:
            self._handle(each)
        self._import()
        initial: dict[str, str] = {}
        for each in self._wanted:
            initial[each.name] = self._assign(each, initial)
        self._import()
        with self.graph.as_default():
            return {each.name: self._variable(each.name, initial[each.name]) for each in self._wanted}

    def _import(self) -> None:
        import_nodes(self.graph, self._nodes, self._outside)
        self._nodes, self._outside = tf.compat.v1.GraphDef(), {}

    def _handle(self, wanted: _Wanted) -> None:
        name, kind = wanted.name, tf.as_dtype(wanted.dtype).as_datatype_enum
        handle = self._node(name, "VarHandleOp", [], wanted.placed, "variable")
        handle.attr["dtype"].type = kind
        handle.attr["shape"].shape.CopyFrom(tf.TensorShape(wanted.shape).as_proto())
        handle.attr["shared_name"].s = name.encode()
        handle.attr["debug_name"].s = f"{name}/".encode()
        asked = f"{name}/IsInitialized/VarIsInitializedOp"
        self._node(asked, "VarIsInitializedOp", [name], wanted.placed)
        read = self._node(f"{name}/Read/ReadVariableOp", "ReadVariableOp", [name], wanted.placed, "save")
        read.attr["dtype"].type = kind

    def _assign(self, wanted: _Wanted, known: Mapping[str, str]) -> str:
        """Write the op that assigns the first value; return the tensor of that value."""
        name, initial = wanted.name, wanted.initial
        if isinstance(initial, float):
            value = self._filled(wanted, initial)
        elif isinstance(initial, str):
            value = self._given(known[initial])
        else:
            with self.ledger.place(wanted.placed, "init"), tf.name_scope(f"{name}/Initializer/"):
                value = self._given(initial().name)
        assign = self._node(
            f"{name}/Assign", "AssignVariableOp", [self._given(f"{name}:0"), value], wanted.placed
        )
        assign.attr["dtype"].type = tf.as_dtype(wanted.dtype).as_datatype_enum
        return value if ":" in value else f"{value}:0"

    def _given(self, tensor: str) -> str:
        """Return the name that nodes use for a tensor that is already in the graph."""
        self._outside[tensor] = self.graph.get_tensor_by_name(tensor)
        return tensor.removesuffix(":0")

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
        scope, placed = f"{wanted.name}/Initializer", wanted.placed
        number = self._constant(f"{scope}/Const", value, wanted.dtype, (), placed)
        dims = self._constant(f"{scope}/Fill/dims", wanted.shape, "int32", (len(wanted.shape),), placed)
        fill = self._node(f"{scope}/Fill", "Fill", [dims, number], placed)
        fill.attr["T"].type = tf.as_dtype(wanted.dtype).as_datatype_enum
        fill.attr["index_type"].type = INT32
        return str(fill.name)

    def _constant(self, name: str, value: Any, dtype: str, shape: Sequence[int], placed: Placed) -> str:
        node = self._node(name, "Const", [], placed)
        node.attr["dtype"].type = tf.as_dtype(dtype).as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.as_dtype(dtype), shape))
        return name

    def _node(self, name: str, op: str, inputs: Sequence[str], placed: Placed, role: Role = "init") -> Any:
        node = self._nodes.node.add(
            name=name, op=op, device=self.ledger.plan.tensorflow_device(placed.device)
        )
        node.input.extend(inputs)
        self.ledger.enter(name, Entry(placed, role))
        return node
