"""Variables written as nodes, all at once, because making a tf.Variable op by op takes a millisecond.

The nodes are those of `tf.compat.v1.Variable`: a handle, the op that assigns the first value, and a read for
checkpoints and fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.adapters.tensorflow_private import ResourceVariable, VariableDef
from compiler.graph.fragments import fragment_of
from compiler.graph.ledger import Ledger
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Fragment, Tensor, Use
from compiler.step.writer import StepWriter


@frozen
class ZerosOf:
    """Zeros in the shape and type of a variable."""

    name: str


Initial: TypeAlias = Callable[[], tf.Tensor] | Fragment | Tensor | float | str | ZerosOf
"""A function that makes the first value, nodes that make it, the value itself, the number that all elements
are, a variable with that value, or zeros."""


@frozen
class StepVariable:
    """A variable of a graph that is being written."""

    name: str
    type: str
    sizes: tuple[int, ...]

    @cached_property
    def tensor(self) -> Tensor:
        """The record of its handle."""
        return Tensor(self.name, "resource", (), holds=(self.type, self.sizes))

    @property
    def first_assigned(self) -> str:
        """The name of the op that gives it its first value."""
        return f"{self.name}/Assign"

    @property
    def read(self) -> str:
        """The name of the op that reads it for checkpoints and fetches."""
        return f"{self.name}/Read/ReadVariableOp"

    @property
    def dtype(self) -> tf.DType:
        """Its type."""
        return tf.as_dtype(self.type)

    @property
    def shape(self) -> tf.TensorShape:
        """Its shape."""
        return _shape(self.sizes)

    def in_graph(self, graph: tf.Graph) -> Any:
        """Return the tf.Variable in a graph that has the ops of the ledger."""
        definition = VariableDef(
            variable_name=f"{self.name}:0",
            initializer_name=self.first_assigned,
            snapshot_name=f"{self.read}:0",
            initial_value_name=graph.get_operation_by_name(self.first_assigned).inputs[1].name,
            is_resource=True,
        )
        with graph.as_default():
            found = ResourceVariable(variable_def=definition)
        graph.add_to_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, found)
        return found


@cache
def _shape(sizes: tuple[int, ...]) -> tf.TensorShape:
    return tf.TensorShape(sizes)


@define
class VariableWriter:
    """Writes variables, and after all of them their first values."""

    ledger: Ledger = field(repr=False)
    _writer: StepWriter = field(init=False, repr=False)
    _wanted: list[tuple[StepVariable, Initial, Placed]] = field(factory=list, repr=False)
    _graph: tf.Graph = field(factory=tf.Graph, init=False, repr=False)  # has what functions make
    _made: dict[str, Tensor] = field(factory=dict, init=False, repr=False)  # by its name in there

    def __attrs_post_init__(self) -> None:
        self._writer = self.ledger.writer("init")
        self._graph.seed = self.ledger.seed

    def add(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        initial: Initial,
        placed: Placed,
        shared: str | None = None,
    ) -> StepVariable:
        """Write a variable, whose first value `finish` writes; `shared` is its name in another graph."""
        writer, made = self._writer, StepVariable(name, dtype, tuple(shape))
        handle = writer.variable(name, dtype, made.sizes, shared or name, placed, {"debug_name": f"{name}/"})
        writer.read(made.read, handle, placed, role="save")
        self._wanted.append((made, initial, placed))
        return made

    def finish(self) -> None:
        """Write the first values of all variables."""
        known: dict[str, Tensor] = {}
        for each, initial, placed in self._wanted:
            value = known[each.name] = self._first(each, initial, placed, known)
            self._writer.assign(each.first_assigned, each.tensor, value, placed)

    def _first(
        self, variable: StepVariable, initial: Initial, placed: Placed, known: Mapping[str, Tensor]
    ) -> Tensor:
        """Write the first value of a variable; `known` are those of variables before it."""
        scope, writer = f"{variable.name}/Initializer", self._writer
        if isinstance(initial, Tensor):
            return initial
        if isinstance(initial, float):
            number = writer.constant(f"{scope}/Const", initial, variable.type, placed)
            dims = writer.constant(f"{scope}/Fill/dims", variable.sizes, "int32", placed)
            return writer.write("Fill", f"{scope}/Fill", (dims, number), placed)[0]
        if isinstance(initial, str):
            return known[initial]
        if isinstance(initial, ZerosOf):
            return writer.write("ZerosLike", f"{scope}/zeros_like", (known[initial.name],), placed)[0]
        if isinstance(initial, Fragment):
            return writer.use(initial, scope, {}, placed).result
        return self.called(scope, initial, placed)

    def called(self, scope: str, initial: Callable[[], tf.Tensor], placed: Placed) -> Tensor:
        """Write what a function makes.

        All functions are called in one graph, because random ops with a state are seeded by the ops before.
        """
        graph, made = self._graph, self._made
        begin = graph.num_operations()
        with graph.as_default(), tf.name_scope(f"{scope}/"):
            value = initial()
        new = graph.get_operations()[begin:]
        fragment = fragment_of(graph, ops=new)
        names = {own: own for own in fragment.node}
        use = Use(fragment, [*names], names, {**made}, placed, "init")
        self._writer.ops.append(use)
        own = (each.name.removesuffix(":0") for op in new for each in op.outputs)
        made |= {each: use.tensor(each) for each in own}
        return made[value.name.removesuffix(":0")]


# --- tensors of checkpoints that are several variables ----------------------------------------------------


@frozen
class CutVariable:
    """A tensor of a checkpoint that is several variables in the graph."""

    shards: tuple[Shard, ...]
    variables: tuple[Any, ...] = field(repr=False)

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the whole tensor."""
        return tf.TensorShape(self.shards[0].whole)

    @property
    def dtype(self) -> tf.DType:
        """The type."""
        return self.variables[0].dtype


Saved = Any
"""A tf.Variable or a CutVariable."""


def variables_of(saved: Saved) -> tuple[Any, ...]:
    """Return the variables of the graph that a tensor of a checkpoint consists of."""
    return saved.variables if isinstance(saved, CutVariable) else (saved,)


def pieces_of(saved: Saved, value: np.ndarray) -> list[np.ndarray]:
    """Return the values of the variables of a tensor, from the value of the whole tensor."""
    if isinstance(saved, CutVariable):
        return [np.reshape(value, each.cut_shape)[each.index] for each in saved.shards]
    return [value]


def whole_of(saved: Saved, values: Sequence[np.ndarray]) -> np.ndarray:
    """Return the value of a whole tensor, from those of its variables."""
    if isinstance(saved, CutVariable):
        return np.concatenate(values, saved.shards[0].axis).reshape(saved.shards[0].whole)
    return values[0]


def read_saved(run: Callable[[Any], Any], saved: Mapping[str, Saved]) -> dict[str, np.ndarray]:
    """Return the values of tensors by name."""
    found = run({name: list(variables_of(each)) for name, each in saved.items()})
    return {name: whole_of(each, found[name]) for name, each in saved.items()}


def assign(run: Callable[..., Any], saved: Mapping[str, Saved], values: Mapping[str, np.ndarray]) -> None:
    """Give tensors new values by name, each of the whole tensor in its shape.

    A value is fed in place of the initial one. A moving average starts from the tensor of its weight, so that
    it has its turn after that.
    """
    while values:
        ops: list[tf.Operation] = []
        feed: dict[tf.Tensor, np.ndarray] = {}
        later = {}
        for name, value in values.items():
            own = [each.initializer for each in variables_of(saved[name])]
            if any(op.inputs[1] in feed for op in own):
                later[name] = value
                continue
            ops += own
            feed |= zip((op.inputs[1] for op in own), pieces_of(saved[name], value), strict=True)
        run(ops, feed)
        values = later
