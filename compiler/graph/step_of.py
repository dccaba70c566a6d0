"""The step of a compiled graph as records, also with the sizes that TensorFlow does not know.

These are the sizes of free axes, and those inside of loops. A forecast counts bytes by static shapes. A
graph with axes without fixed sizes is therefore read again with assumed sizes in the place where examples
enter it, and TensorFlow follows them through the ops.

TensorFlow does not follow shapes into the loop over micro-batches. Most variables of a loop keep theirs. A
copy of the graph in which they are passed on, and nothing comes back, therefore has the shapes of every
iteration. Only rows that are collected become more with each one; in the copy, all of them are there after
the loop. Neither copy is ever run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.compiled import CompiledGraph
from compiler.graph.feeding import InputPipe
from compiler.graph.finished import in_graph
from compiler.graph.inspect.verify_placement import shared_places
from compiler.graph.nodes import import_nodes
from compiler.graph.variables.variables import AVERAGE, GraphVariable, copy_name
from compiler.model.graph import InputNode
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
    """Return the names of the ops with which a step ends."""
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


NEXT, TAKEN = "IteratorGetNext", "Unstage"
_SHAPES = "_output_shapes"


def assumed_graph(compiled: CompiledGraph) -> tf.Graph:
    """Return a graph with the ops of a compiled graph, whose static shapes are those that forecasts assume.

    That is the graph itself if all inputs have fixed shapes. Shapes stay unknown behind ops whose
    output shape TensorFlow does not know, such as loops over the positions of a sequence.
    """
    if not any(each.free for each in compiled.plan.model.inputs):
        return compiled.graph
    found = tf.Graph()
    import_nodes(found, _with_sizes(compiled), {})
    return found


def _with_sizes(compiled: CompiledGraph) -> Any:
    """Return the GraphDef of a graph, with assumed sizes where iterators and staging areas give examples."""
    whole = compiled.graph.as_graph_def(add_shapes=True)
    nodes = {node.name: node for node in whole.node}
    for pipe in (*compiled.train_inputs, compiled.evaluation.pipe):
        wanted = {tensor.value_index: name for name, tensor in pipe.batch.items()}
        inputs = {each.name: each for each in pipe.wanted}
        for node in _draws(pipe, nodes.values()):
            for at, name in wanted.items():
                for shapes in (node.attr["output_shapes"].list.shape, node.attr[_SHAPES].list.shape):
                    _assume(shapes[at], inputs[name])
    for node in nodes.values():
        if node.op == TAKEN:
            for dtype, shape in zip(
                node.attr["dtypes"].list.type, node.attr[_SHAPES].list.shape, strict=True
            ):
                known = (each for each in compiled.plan.model.inputs if _is_of(dtype, shape, each))
                each = next(known, None)
                if each is not None:
                    _assume(shape, each)
    return whole


def _draws(pipe: InputPipe, nodes: Any) -> Iterator[Any]:
    """Yield the nodes that draw a batch from the iterator of a pipe."""
    iterator = next(iter(pipe.batch.values())).op.inputs[0].op.name
    return (node for node in nodes if node.op == NEXT and node.input[0] == iterator)


def _is_of(dtype: int, shape: Any, node: InputNode) -> bool:
    sizes = tuple(None if each.size < 0 else each.size for each in shape.dim)[1:]
    return bool(node.free) and tf.as_dtype(dtype).name == node.dtype and sizes == node.shape


def _assume(shape: Any, node: InputNode) -> None:
    """Put the assumed sizes of an input into a shape with a batch axis."""
    for each in node.free:
        shape.dim[each.axis + 1].size = each.assumed


_PASSED_ON = ("Enter", "Merge")
_WITHOUT_A_RULE = ("ScatterNd", "UnsortedSegmentSum", "Unstage")
"""The types of ops whose shapes the graph knows, and TensorFlow's rules do not."""


def shaped_graph(compiled: CompiledGraph) -> tf.Graph:
    """Return a graph with the ops of a compiled graph by name, with the shapes of all ops in its loops."""
    whole = compiled.graph.as_graph_def(add_shapes=True)
    nodes = {each.name: each for each in whole.node}
    for each in whole.node:
        if each.op == "Exit":
            _collect(each, nodes, compiled.plan.micro_batches)
    for node in whole.node:
        if node.op in _PASSED_ON:
            _pass_on(node)
        if node.op not in _WITHOUT_A_RULE:
            node.attr.pop(_SHAPES, None)
    found = tf.Graph()
    import_nodes(found, whole, {})
    return found


def _pass_on(node: Any) -> None:
    """Let a node have the value with which its loop begins."""
    node.op = "Identity"
    del node.input[1:]
    for name in set(node.attr) - {"T"}:
        del node.attr[name]


def _collect(end: Any, nodes: Mapping[str, Any], count: int) -> None:
    """Let the node after a loop have the rows of all iterations, if the loop collects rows."""
    switch = nodes[_maker(end.input[0])]
    back = nodes[_maker(nodes[_maker(switch.input[0])].input[1])]
    joined = nodes[_maker(back.input[0])]
    if joined.op != "ConcatV2" or switch.name not in {
        _maker(joined.input[0]),
        *map(_maker, nodes[_maker(joined.input[0])].input),
    }:
        return
    rows, axis = joined.input[1], joined.input[2]
    end.op = joined.op
    end.attr.clear()
    for name in ("T", "Tidx"):
        end.attr[name].CopyFrom(joined.attr[name])
    end.attr["N"].i = count
    del end.input[:]
    end.input.extend([*(rows for _ in range(count)), axis])


def _maker(name: str) -> str:
    """Return the name of the node that makes an input."""
    return name.removeprefix("^").partition(":")[0]
