"""The static shapes of ops in the loop over micro-batches, which TensorFlow does not follow into loops.

Most variables of a loop keep their shapes. A copy of the graph in which they are passed on, and nothing comes
back, therefore has the shapes of every iteration. Only rows that are collected become more with each one; in
the copy, all of them are there after the loop. The copy is never run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from compiler.graph.compiled import CompiledGraph
from compiler.graph.importing import import_nodes

_PASSED_ON = ("Enter", "Merge")
_WITHOUT_A_RULE = ("ScatterNd", "UnsortedSegmentSum", "Unstage")
"""The types of ops whose shapes the graph knows, and TensorFlow's rules do not."""

_SHAPES = "_output_shapes"


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
