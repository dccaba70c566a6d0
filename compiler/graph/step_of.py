"""The step of a compiled graph, as the records of `compiler/step/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.compiled import CompiledGraph
from compiler.graph.dtypes import size_in_bytes
from compiler.graph.finished import in_graph
from compiler.graph.inspect.own_devices import shared_places
from compiler.graph.inspect.shapes import assumed_graph, shaped_graph
from compiler.graph.variables.variables import AVERAGE, GraphVariable
from compiler.plan import WorkerPlan
from compiler.process import collector_paused
from compiler.step.record import Op, Tensor
from compiler.step.step import Ends, Slot, Step, Variable


def step_of(compiled: CompiledGraph) -> Step:
    """Return the step of a graph."""
    places, exchange = list(shared_places(compiled)), compiled.exchange
    with collector_paused():
        ops = _owned(compiled, compiled.ledger.ops)
        free = any(each.free for each in compiled.plan.model.inputs)
        known = _with_shapes(ops, assumed_graph(in_graph(compiled))) if free else ops
    return Step(
        compiled.plan,
        known,
        {name: _variable(each) for name, each in compiled.variables.items()},
        _ends(compiled),
        frozenset(each.device.host for each in places),
        (lambda: _with_shapes(ops, shaped_graph(in_graph(compiled)))) if compiled.plan.loops else None,
        crossings=() if exchange is None else exchange.crossings,
        abroad=frozenset() if exchange is None else exchange.abroad,
        everyone=lambda: tuple(each.step for each in compiled.everyone()),
    )


def _owned(compiled: CompiledGraph, ops: Mapping[str, Op]) -> Mapping[str, Op]:
    """Return ops that know whether each worker has them on its own devices, not because of what is shared."""
    plan = compiled.plan
    if not isinstance(plan, WorkerPlan):
        return ops
    host = plan.worker.host
    shared = {each.reason.root for each in shared_places(compiled) if each.device.host == host}
    return {
        name: evolve(op, own=True) if op.device.host == host and op.placed.reason.root not in shared else op
        for name, op in ops.items()
    }


def _with_shapes(ops: Mapping[str, Op], graph: tf.Graph) -> Mapping[str, Op]:
    """Return ops with the shapes that they have in a graph."""
    known: dict[str, Tensor] = {}

    def shaped(tensor: Tensor) -> Tensor:
        found = known.get(tensor.name)
        if found is None:
            outputs = graph.get_operation_by_name(tensor.op).outputs
            shape = outputs[tensor.output].shape if tensor.output < len(outputs) else tf.TensorShape(None)
            sizes = tensor.shape if shape.rank is None else tuple(shape.as_list())
            found = known[tensor.name] = evolve(tensor, shape=sizes)
        return found

    return {
        name: evolve(op, inputs=tuple(map(shaped, op.inputs)), outputs=tuple(map(shaped, op.outputs)))
        for name, op in ops.items()
    }


# --- variables --------------------------------------------------------------------------------------------


def _variable(variable: GraphVariable) -> Variable:
    return Variable(
        variable.placement,
        tuple(_handle_of(each) for each in variable.copies),
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
    """Return the record of a slot, or of a moving average."""
    shape = slot.shape.as_list()
    shard = owner.info.shard
    return Slot(
        name,
        _handle_of(slot),
        size_in_bytes(shape, slot.dtype.name) or 0,
        owner.slot_place(copy).device,
        shard if shard is not None and tuple(shape) == shard.shape else None,
    )


def _handle_of(variable: Any) -> str:
    """Return the name of the op of a handle, for which a step needs no op of TensorFlow."""
    return str(variable.name).removesuffix(":0")


# --- ends -------------------------------------------------------------------------------------------------


def _op_of(tensor: Any) -> str:
    """Return the name of the op that makes a tensor."""
    return str(tensor.name).partition(":")[0]


def _ends(compiled: CompiledGraph) -> Ends:
    """Return the names of the ops with which a step ends."""
    loss, exchange, train = _op_of(compiled.data_loss), compiled.exchange, compiled.train_op
    if exchange is None:
        loops = tuple((each.train_op.name, _op_of(each.data_loss)) for each in compiled.train_loops)
        return Ends((loss, *([train.name] if train is not None else [])), loops)
    ends = tuple(each.name for each in exchange.ends)
    sends = tuple(each.name for each in exchange.sends)
    applied = () if exchange.apply is None else (exchange.apply.name, loss)
    return Ends((loss, *ends, *sends), (), (*ends[:1], *sends), applied, exchange.chief_ops)
