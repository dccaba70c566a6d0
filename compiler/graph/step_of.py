"""The step of a compiled graph as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve

from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.verify_placement import shared_places
from compiler.graph.variables.variables import AVERAGE, GraphVariable, copy_name
from compiler.plan import WorkerPlan
from compiler.process import collector_paused
from compiler.step.record import Op, Tensor
from compiler.step.step import Ends, Slot, Step, Variable


def step_of(compiled: CompiledGraph) -> Step:
    """Return the step of a graph."""
    places, exchange = list(shared_places(compiled)), compiled.exchange
    with collector_paused():
        written = compiled.ledger.ops
        ops = _owned(compiled, written)
    return Step(
        compiled.plan,
        ops,
        {name: _variable(each) for name, each in compiled.variables.items()},
        _ends(compiled),
        frozenset(each.device.host for each in places),
        crossings=() if exchange is None else exchange.crossings,
        abroad=frozenset() if exchange is None else exchange.abroad,
        everyone=lambda: tuple(each.step for each in compiled.everyone()),
        edges=compiled.ledger.edges if ops is written else None,
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


def _variable(variable: GraphVariable) -> Variable:
    return Variable(
        variable.placement,
        tuple(map(_op_of, variable.copies)),
        tuple(_slots(variable)),
        variable.info.shard is not None and variable.info.initializer.made_whole,
    )


def _slots(variable: GraphVariable) -> Iterator[Slot]:
    """Yield the slots and the moving averages of a variable, or of its parts."""
    for owner in variable.updated:
        families = {**owner.slots, AVERAGE: [] if owner.average is None else [owner.average]}
        for suffix, copies in families.items():
            for copy, each in enumerate(copies):
                shape, shard = tuple(each.shape.as_list()), owner.info.shard
                yield Slot(
                    copy_name(f"{owner.name}/{suffix}", copy),
                    _op_of(each),
                    Tensor("", each.dtype.name, shape).bytes or 0,
                    owner.slot_place(copy).device,
                    shard if shard is not None and shape == shard.shape else None,
                )


def _op_of(made: Any) -> str:
    """Return the name of the op that makes a tensor, or that is the handle of a variable."""
    return str(made.name).partition(":")[0]


def _ends(compiled: CompiledGraph) -> Ends:
    loss, exchange, train = _op_of(compiled.data_loss), compiled.exchange, compiled.train_op
    if exchange is None:
        loops = tuple((each.train_op.name, _op_of(each.data_loss)) for each in compiled.train_loops)
        return Ends((loss, *([train.name] if train is not None else [])), loops)
    ends = tuple(each.name for each in exchange.ends)
    sends = tuple(each.name for each in exchange.sends)
    applied = () if exchange.apply is None else (exchange.apply.name, loss)
    shared = exchange.share, *exchange.share_sends, exchange.give
    last = tuple(each.name for each in shared if each is not None)
    return Ends((loss, *ends, *sends, *last), (), (*ends[:1], *sends), applied, last, exchange.chief_ops)
