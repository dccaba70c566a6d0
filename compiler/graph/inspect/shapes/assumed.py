"""The graph of a model whose inputs have axes without fixed sizes, with the sizes that forecasts assume.

A forecast counts bytes by static shapes. A graph with such axes is therefore read again with assumed sizes in
the place where examples enter it, and TensorFlow follows them through the ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.importing import import_nodes

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
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
