"""The sizes of tensors that TensorFlow does not know: those of free axes, and those inside of loops.

A forecast counts bytes by static shapes. A graph with axes without fixed sizes is therefore read again with
assumed sizes in the place where examples enter it, and TensorFlow follows them through the ops.

TensorFlow does not follow shapes into the loop over micro-batches. Most variables of a loop keep theirs. A
copy of the graph in which they are passed on, and nothing comes back, therefore has the shapes of every
iteration. Only rows that are collected become more with each one; in the copy, all of them are there after
the loop. Neither copy is ever run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.compiled import CompiledGraph
from compiler.graph.nodes import import_nodes

if TYPE_CHECKING:
    from compiler.graph.inputs.iterators import InputPipe
    from compiler.model.graph import InputNode


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
