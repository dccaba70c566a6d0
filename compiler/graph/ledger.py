"""The ledger: every op of a step while it is written, with its place, its role and the reason for its place.

Ops that are written as records are only collected; TensorFlow gets all of them at once, when a graph is made.
What TensorFlow's functions write, they write under `Ledger.place` into a graph of their own, in which a
*stand-in* takes the place of each record that they use: an op of the same name that makes tensors of the same
types and shapes. An op without an entry fails the compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import keep_python_functions, reserve_names, set_device
from compiler.graph.importing import import_nodes
from compiler.graph.nodes import write_nodes
from compiler.graph.step_records import ops_of
from compiler.plan import Plan
from compiler.reasons import Placed
from compiler.step.record import Entry, Made, Op, Role, Rows, Shape, Tensor, Use, Value
from compiler.step.writer import StepWriter

_SHAPES = "_output_shapes"

RoleOf = Role | Callable[[Any], Role]


@define
class Ledger:
    """The ops of a step.

    Attributes:
        plan: The plan, which gives the names of the devices in sessions.
        graph: The graph for what TensorFlow's functions write.
        stand_ins: The ops in it that stand for others, by name.
    """

    plan: Plan = field(repr=False)
    graph: tf.Graph = field(factory=tf.Graph, repr=False)
    stand_ins: dict[str, tf.Operation] = field(factory=dict, repr=False)
    _entries: dict[str, Entry] = field(factory=dict, repr=False)
    _pending: list[Op | Use] = field(factory=list, repr=False)  # written, and not entered yet
    _parts: list[tuple[int, Sequence[Op | Use]]] = field(factory=list, repr=False)  # after ops of `graph`
    _written: dict[str, Op | tuple[Use, str]] = field(factory=dict, repr=False)

    @contextmanager
    def place(self, placed: Placed, role: RoleOf, clone: int | None = None) -> Iterator[None]:
        """Create ops on a device and record them; an inner `place` overrides an outer one.

        Args:
            placed: The device, and the reason for it.
            role: What the ops are for, or a function of the op if one call of a library makes ops of several
                roles.
            clone: The number of the clone, or None if the ops belong to no tower.
        """
        self._enter_written()
        name = self.plan.tensorflow_device(placed.device)
        graph = tf.compat.v1.get_default_graph()

        def choose(op: Any) -> str:
            if op.graph is not graph:  # the body of a function, which runs where the function is called
                return str(op.device)
            if op.name not in self._entries:
                self.enter(op.name, Entry(placed, role if isinstance(role, str) else role(op), clone))
            return op.device or name

        stand_ins, entered = self.stand_ins, len(self._entries)
        ops, before = graph.num_operations(), len(stand_ins)
        with tf.compat.v1.device(choose):
            yield
        made = graph.num_operations() - ops - (len(stand_ins) - before)
        if made > len(self._entries) - entered:
            # tf.gradients, iterators and assignments of initial values pass device functions by
            for op in graph.get_operations()[ops:]:
                if op.name not in stand_ins:
                    set_device(op, choose(op))

    def enter(self, op_name: str, entry: Entry) -> None:
        """Record an op.

        Args:
            op_name: The name of the op in the graph.
            entry: Where the op is, what it is for, and why it is there. It replaces an earlier entry of that
                name.
        """
        self._entries[op_name] = entry

    def writer(self, role: Role) -> StepWriter:
        """Return a writer of ops of the step; `role` is what they are for."""
        return StepWriter(role, self.unique, ops=self._pending)

    def _enter_written(self) -> None:
        """Enter what has been written since the last time."""
        if not self._pending:
            return
        ops = [*self._pending]
        self._pending.clear()
        self._parts.append((self.graph.num_operations(), ops))
        for each in ops:
            if isinstance(each, Op):
                self._written[each.name] = each
                self._entries[each.name] = Entry(each.placed, each.role, each.clone)
            else:
                for own in each.ops:
                    name = each.names[own]
                    self._written[name] = (each, own)
                    self._entries[name] = Entry(each.place_of(own), each.role_of(own), each.clone)
        reserve_names(self.graph, _names(ops))

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The place and the role of each op, by its name."""
        self._enter_written()
        return self._entries

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        """All ops by name, once everything is written."""
        return ops_of(self.in_order(), self.entries)

    def op(self, name: str) -> tf.Operation:
        """Return an op of `graph`: that of a name, or what stands for the one that was written under it."""
        self._enter_written()
        written = self._written.get(name)
        if written is None:
            return self.graph.get_operation_by_name(name)
        found = self.stand_ins.get(name)
        if found is None:
            found = self.stand_ins[name] = self._made_instead(name, written)
        return found

    def tensor(self, name: str, shape: Shape | None = None) -> tf.Tensor:
        """Return a tensor of `graph`.

        Args:
            name: Its name.
            shape: What is known of its shape, if its op was written.
        """
        op, _, output = name.partition(":")
        found = self.op(op).outputs[int(output or 0)]
        if op in self._written and shape is not None:
            found.set_shape(shape)
        return found

    def made(self, value: Value) -> Any:
        """Return the tensor of `graph` that a record stands for, or the rows."""
        if isinstance(value, Rows):
            merged = value.merged
            before = None if merged is None else lambda: self.made(merged)
            return SummedRows(self.made(value.values), self.made(value.indices), before)
        return self.tensor(value.name, value.shape)

    def unique(self, name: str) -> str:
        """Return a name that nothing has yet: the wanted one, or one with a number after it."""
        if not self.graph.get_name_scope():
            return str(self.graph.unique_name(name))
        with self.graph.name_scope(None):
            return str(self.graph.unique_name(name))

    def mark(self) -> tuple[int, int]:
        """Return how far the step has been written."""
        self._enter_written()
        return self.graph.num_operations(), len(self._parts)

    def names_since(self, mark: tuple[int, int]) -> frozenset[str]:
        """Return the names of the ops that have been written since a mark was made."""
        self._enter_written()
        ops, parts = mark
        made = {op.name for op in self.graph.get_operations()[ops:]} - self.stand_ins.keys()
        return frozenset(made.union(*(_names(ops) for _, ops in self._parts[parts:])))

    def in_order(self) -> Iterator[tf.Operation | Op | Use]:
        """Yield all that was written: ops of `graph`, ops, and uses of fragments."""
        self._enter_written()
        traced, begin = self.graph.get_operations(), 0
        for end, ops in (*self._parts, (len(traced), ())):
            yield from (each for each in traced[begin:end] if each.name not in self.stand_ins)
            yield from ops
            begin = end

    def graph_def(self) -> Any:
        """Return everything that was written as a GraphDef, in the order in which it was."""
        self._enter_written()
        traced = self.graph.as_graph_def(add_shapes=True)
        whole = tf.compat.v1.GraphDef(versions=traced.versions, library=traced.library)
        begin = 0
        for end, ops in (*self._parts, (len(traced.node), ())):
            whole.node.extend(each for each in traced.node[begin:end] if each.name not in self.stand_ins)
            write_nodes(ops, self.plan, whole)
            begin = end
        told = {each.name: each.attr[_SHAPES] for each in traced.node if each.name in self.stand_ins}
        for node in whole.node if told else ():
            if node.name in told and told[node.name].list.shape:  # what is not seen from its inputs
                node.attr[_SHAPES].CopyFrom(told[node.name])
        return whole

    def finish(self) -> tf.Graph:
        """Return a graph with everything that was written."""
        graph = tf.Graph()
        graph.seed = self.graph.seed
        import_nodes(graph, self.graph_def(), {})
        keep_python_functions(graph, self.graph)
        return graph

    def _made_instead(self, name: str, written: Op | tuple[Use, str]) -> tf.Operation:
        """Make an op that stands for another, whatever scope, device or control inputs others get now."""
        made: Made
        if isinstance(written, Op):
            made, holds = [(each.dtype, each.shape) for each in written.outputs], written.outputs[:1]
            placed = written.placed
        else:
            use, own = written
            made, holds, placed = use.fragment.made[own], (), use.place_of(own)
        kinds = [tf.as_dtype(dtype) for dtype, _ in made]
        kind, attributes = "NoOp", {}
        if holds and holds[0].holds is not None:  # a handle: what is read from it has a shape
            dtype, shape = holds[0].holds
            attributes["dtype"] = tf.compat.v1.AttrValue(type=tf.as_dtype(dtype).as_datatype_enum)
            attributes["shape"] = tf.compat.v1.AttrValue(shape=_shape_proto(shape))
            kind = "VarHandleOp"
        elif kinds:
            kind = "Unstage"
            types = [each.as_datatype_enum for each in kinds]
            attributes["dtypes"] = tf.compat.v1.AttrValue(list={"type": types})
        graph = self.graph
        with graph.as_default(), graph.device(None), tf.control_dependencies(None):
            found = graph.create_op(kind, [], kinds, name=f"{name}/", attrs=attributes)
        set_device(found, self.plan.tensorflow_device(placed.device))
        return found


class SummedRows(tf.IndexedSlices):  # type: ignore[misc] # TensorFlow has no types
    """Rows in the graph of a ledger, which may be the sums of others on their device.

    Attributes:
        before: Returns the others; None if it is not known that there are some.
    """

    def __init__(
        self, values: tf.Tensor, indices: tf.Tensor, before: Callable[[], tf.IndexedSlices] | None
    ) -> None:
        super().__init__(values, indices)
        self.before = before


def given(value: Any) -> Value:
    """Return the record of a tensor of a graph, or of rows.

    Args:
        value: A tensor, or IndexedSlices.
    """
    if isinstance(value, tf.IndexedSlices):
        return Rows(tensor_given(value.values), tensor_given(value.indices))
    return tensor_given(value)


def tensor_given(tensor: tf.Tensor) -> Tensor:
    """Return the record of a tensor of a graph."""
    shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
    return Tensor(tensor.op.name, tensor.dtype.name, shape, tensor.value_index)


def _names(ops: Iterable[Op | Use]) -> Iterator[str]:
    for each in ops:
        if isinstance(each, Op):
            yield each.name
        else:
            yield from (each.names[own] for own in each.ops)


def _shape_proto(shape: Shape) -> Any:
    """Return a shape as variables have it; if an axis has no fixed size, TensorFlow is told nothing of it."""
    return tf.TensorShape(None if None in shape else shape).as_proto()
