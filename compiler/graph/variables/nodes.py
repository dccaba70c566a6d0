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
from compiler.graph.step_nodes import GraphStep
from compiler.reasons import Placed
from compiler.step.record import Fragment, Tensor

Initial: TypeAlias = Callable[[], tf.Tensor] | Fragment | float | str
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
    _step: GraphStep = field(init=False, repr=False)
    _wanted: list[_Wanted] = field(factory=list, repr=False)

    def __attrs_post_init__(self) -> None:
        self._step = GraphStep(self.graph, self.ledger, "init")

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
        handles = [self._handle(each) for each in self._wanted]
        self._step.finish()
        initial: dict[str, Tensor] = {}
        for each, handle in zip(self._wanted, handles, strict=True):
            value = initial[each.name] = self._first(each, initial)
            self._step.writer.assign(f"{each.name}/Assign", handle, value, each.placed)
        self._step.finish()
        with self.graph.as_default():
            return {each.name: self._variable(each.name, initial[each.name].name) for each in self._wanted}

    def _handle(self, wanted: _Wanted) -> Tensor:
        name, writer, placed = wanted.name, self._step.writer, wanted.placed
        debug = {"debug_name": f"{name}/"}
        handle = writer.variable(name, wanted.dtype, wanted.shape, name, placed, debug)
        asked = f"{name}/IsInitialized/VarIsInitializedOp"
        writer.write("VarIsInitializedOp", asked, (handle,), placed)
        writer.read(f"{name}/Read/ReadVariableOp", handle, placed, role="save")
        return handle

    def _first(self, wanted: _Wanted, known: Mapping[str, Tensor]) -> Tensor:
        """Write the first value of a variable; `known` are those of variables before it."""
        scope, initial = f"{wanted.name}/Initializer", wanted.initial
        writer, placed = self._step.writer, wanted.placed
        if isinstance(initial, float):
            number = writer.constant(f"{scope}/Const", initial, wanted.dtype, placed)
            dims = writer.constant(f"{scope}/Fill/dims", wanted.shape, "int32", placed)
            return writer.write("Fill", f"{scope}/Fill", (dims, number), placed)[0]
        if isinstance(initial, str):
            return known[initial]
        if isinstance(initial, Fragment):
            return writer.use(initial, scope, {}, placed).result(wanted.dtype, wanted.shape)
        with self.ledger.place(placed, "init"), tf.name_scope(f"{scope}/"):
            return self._step.tensor(initial())

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
