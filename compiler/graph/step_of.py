"""The step of a compiled graph, as the records of `compiler/step/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.collector import collector_paused
from compiler.graph.adapters.tensorflow_private import op_definition
from compiler.graph.compiled import CompiledGraph
from compiler.graph.dtypes import size_in_bytes
from compiler.graph.inspect.devices.own_devices import shared_places
from compiler.graph.inspect.shapes.assumed import assumed_graph
from compiler.graph.inspect.shapes.loop_shapes import shaped_graph
from compiler.graph.ledger import Entry
from compiler.graph.variables.variables import AVERAGE, GraphVariable
from compiler.plan import WorkerPlan
from compiler.reasons import Placed, Reason
from compiler.step.record import Op, Shape, Tensor
from compiler.step.step import Ends, Slot, Step, Variable
from compiler.topology import Device, Host


def step_of(compiled: CompiledGraph) -> Step:
    """Return the step of a graph.

    Args:
        compiled: The graph.
    """
    places = list(shared_places(compiled))
    entries = _Entries.of(compiled, places)

    def sized() -> Mapping[str, Op]:
        shaped = shaped_graph(compiled)
        with collector_paused():
            return _ops(shaped, entries, shaped)

    with collector_paused():
        ops = _ops(compiled.graph, entries, assumed_graph(compiled))
    return Step(
        compiled.plan,
        ops,
        {name: _variable(each) for name, each in compiled.variables.items()},
        _ends(compiled),
        frozenset(each.device.host for each in places),
        None if compiled.plan.micro_batches == 1 else sized,
    )


def record_of(op: tf.Operation) -> Op:
    """Return the record of an op that is not in a step: nothing is known of its place and its role."""
    made = {each.name: _tensor(each, each.op) for each in (*op.inputs, *op.outputs)}
    return _op(op, made, Entry(Placed(Device("cpu", 0), Reason("", "default")), "forward"), own=False)


# --- ops --------------------------------------------------------------------------------------------------


@define
class _Entries:
    """The ledger of a graph, and what of it each worker has on its own devices.

    Attributes:
        entries: The records by the names of ops.
        host: The task of the worker, if each has a graph of its own.
        shared: The reasons for the places of what workers share on its devices.
    """

    entries: Mapping[str, Entry] = field(repr=False)
    host: Host | None
    shared: frozenset[Reason] = field(repr=False)

    @classmethod
    def of(cls, compiled: CompiledGraph, places: list[Placed]) -> _Entries:
        plan = compiled.plan
        host = plan.worker.host if isinstance(plan, WorkerPlan) else None
        shared = frozenset(each.reason.root for each in places if each.device.host == host)
        return cls(compiled.ledger.entries, host, shared)

    def is_own(self, entry: Entry) -> bool:
        """Whether each worker has an op on its own devices: it is not there because of what workers share."""
        if self.host is None or entry.device.host != self.host:
            return False
        return entry.placed.reason.root not in self.shared


def _ops(graph: tf.Graph, entries: _Entries, shapes: tf.Graph) -> dict[str, Op]:
    """Return the records of the ops of a graph; `shapes` is one with the same ops that knows more shapes."""
    operations = graph.get_operations()
    tensors: dict[str, Tensor] = {}
    for op in operations:
        for each in op.outputs:
            found = tensors[each.name] = _tensor(each, op)
            if shapes is not graph and found.known_shape is None:
                other = shapes.get_tensor_by_name(each.name)
                tensors[each.name] = _tensor(other, other.op)
    records = {}
    for op in operations:
        entry = entries.entries[op.name]
        records[op.name] = _op(op, tensors, entry, own=entries.is_own(entry))
    return records


def _op(op: tf.Operation, tensors: Mapping[str, Tensor], entry: Entry, *, own: bool) -> Op:
    return Op(
        op.name,
        op.type,
        tuple(tensors[each.name] for each in op.inputs),
        entry.placed,
        entry.role,
        tuple(tensors[each.name] for each in op.outputs),
        _Attributes(op),
        tuple(each.name for each in op.control_inputs),
        entry.clone,
        own,
    )


def _tensor(tensor: tf.Tensor, op: tf.Operation) -> Tensor:
    """Return the record of a tensor that an op makes."""
    holds = None
    if op.type == "VarHandleOp":
        held = _shape(tf.TensorShape(op.get_attr("shape")))
        holds = (_name_of(op.get_attr("dtype")), (None,) if held is None else held)
    return Tensor(op.name, _name_of(tensor.dtype), _shape(tensor.shape), tensor.value_index, holds=holds)


def _shape(shape: tf.TensorShape) -> Shape | None:
    return None if shape.rank is None else tuple(shape.as_list())


@cache
def _name_of(dtype: tf.DType) -> str:
    name: str = dtype.name
    return name


class _Attributes(Mapping[str, Any]):
    """The attributes of an op of a graph, which are decoded when they are asked for."""

    __slots__ = ("_op",)

    def __init__(self, op: tf.Operation) -> None:
        self._op = op

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return _plain(self._op.get_attr(name))

    def __contains__(self, name: object) -> bool:
        return name in (_attributes_of(self._op.type) or self._op.node_def.attr)

    def __iter__(self) -> Iterator[str]:
        return iter(_attributes_of(self._op.type) or self._op.node_def.attr)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _attributes_of(kind: str) -> frozenset[str] | None:
    """Return the names of the attributes of a type of ops; None for a function called under its name."""
    definition = op_definition(kind)
    return None if definition is None else frozenset(each.name for each in definition.attr)


def _plain(value: Any) -> Any:
    """Return the value of an attribute as records have it."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, tf.DType):
        return _name_of(value)
    if not hasattr(value, "tensor_content"):
        return value
    elements = tf.make_ndarray(value)
    return elements.item() if elements.ndim == 0 else elements


# --- variables --------------------------------------------------------------------------------------------


def _variable(variable: GraphVariable) -> Variable:
    return Variable(
        variable.placement,
        tuple(each.handle.op.name for each in variable.copies),
        tuple(_slots(variable)),
        variable.info.shard is not None and variable.info.initializer.made_whole,
    )


def _slots(variable: GraphVariable) -> Iterator[Slot]:
    for each in variable.updated:
        for suffix, copies in each.slots.items():
            for copy, slot in enumerate(copies):
                yield _slot(f"{each.name}/{suffix}" + (f"/replica_{copy}" if copy else ""), slot, each, copy)
        if each.average is not None:
            yield _slot(f"{each.name}/{AVERAGE}", each.average, each, 0)


def _slot(name: str, slot: Any, owner: GraphVariable, copy: int) -> Slot:
    """Return the record of a slot, or of a moving average.

    Args:
        name: Its name.
        slot: Its tf.Variable.
        owner: The variable, or the part of it that a clone updates.
        copy: The number of the copy of the variable.
    """
    shape = slot.shape.as_list()
    shard = owner.info.shard
    return Slot(
        name,
        slot.handle.op.name,
        size_in_bytes(shape, slot.dtype.name) or 0,
        owner.slot_place(copy).device,
        shard if shard is not None and tuple(shape) == shard.shape else None,
    )


# --- ends -------------------------------------------------------------------------------------------------


def _ends(compiled: CompiledGraph) -> Ends:
    """Return the names of the ops with which a step ends."""
    loss, exchange, train = compiled.data_loss.op.name, compiled.exchange, compiled.train_op
    if exchange is None:
        loops = tuple((each.train_op.name, each.data_loss.op.name) for each in compiled.train_loops)
        return Ends((loss, *([train.name] if train is not None else [])), loops)
    ends = tuple(each.name for each in exchange.ends)
    applied = () if exchange.apply is None else (exchange.apply.name, loss)
    return Ends((loss, *ends), (), ends[:1], applied, exchange.chief_ops)
