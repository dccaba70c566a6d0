"""Ops of a step as nodes of a TensorFlow graph.

The attributes of a node that say what it takes are those of its inputs, as the definition of its type in
TensorFlow has them. All others are those of the op, or TensorFlow's defaults.

TensorFlow's functions for single ops take about ten times as long, which matters where a graph has some ops
for each variable, or for each copy of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.tensorflow_private import add_nodes, from_library, op_definition
from compiler.graph.step_records import NodeAttributes, used_ops
from compiler.plan import Plan
from compiler.step.record import Op, Use

SHAPES = "_output_shapes"
"""The attribute that tells TensorFlow the shapes that it does not find out."""

_UNSEEN = ("Exit", "QueueDequeueV2", "Unstage")
"""Types of ops of whose results TensorFlow does not find out the shapes."""

UNPORTABLE = ("_class", "_gradient_op_type", "_user_specified_name", "_output_shapes")
"""Attributes that name ops or registries of the graph in which a node was made."""


def write_nodes(ops: Iterable[Op | Use], plan: Plan, graph_def: Any) -> None:
    """Write ops as nodes."""
    for each in ops:
        if isinstance(each, Use):
            _add_functions(graph_def.library.function, each.fragment.nodes.library.function)
        for op in (each,) if isinstance(each, Op) else used_ops(each):
            taken = (
                *(tensor.name.removesuffix(":0") for tensor in op.inputs),
                *(f"^{wait}" for wait in op.waits),
            )
            device = plan.tensorflow_device(op.device)
            _set_attributes(graph_def.node.add(name=op.name, op=op.type, device=device, input=taken), op)


def _add_functions(functions: Any, others: Any) -> None:
    """Add functions that nodes call, if they are not there yet."""
    if others:
        known = {each.signature.name for each in functions}
        functions.extend(each for each in others if each.signature.name not in known)


def _set_attributes(node: Any, op: Op) -> None:
    if isinstance(op.attributes, NodeAttributes):
        for key, known in op.attributes.given.items():
            if key not in UNPORTABLE or key == SHAPES:
                node.attr[key].CopyFrom(known)
        return
    if op.type in _UNSEEN or (op.type == "ReadVariableOp" and op.outputs[0].known_shape is None):
        shapes = (tf.TensorShape(each.shape).as_proto() for each in op.outputs)
        node.attr[SHAPES].list.shape.extend(shapes)
    if op.type == "Const":
        value, dtype = op.attributes["value"], op.attributes["dtype"]
        value = tuple(value) if isinstance(value, Sequence) else value
        node.attr["dtype"].type = _enum(dtype)
        node.attr["value"].tensor.CopyFrom(_constant(value, repr(value), dtype, op.attributes["shape"]))
        return
    told = _told(op.type, len(op.inputs))
    for name, at in told.types.items():
        node.attr[name].type = _enum(op.inputs[at].dtype)
    for name, length in told.lengths.items():
        node.attr[name].i = length
    for name, value in op.attributes.items():
        _set(node.attr[name], told.kinds[name], value)


@cache
def _enum(dtype: str) -> int:
    """Return the number of a type in TensorFlow's records."""
    return tf.as_dtype(dtype).as_datatype_enum


@lru_cache(maxsize=4096)
def _constant(value: Any, written: str, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return the elements of a constant as TensorFlow's record; most are shapes and axes, which recur.

    What is written tells `-0.0` from `0.0`.
    """
    del written
    return tf.make_tensor_proto(value, tf.as_dtype(dtype), shape)


@frozen
class _Told:
    """What the definition of a type of op says of its attributes."""

    types: Mapping[str, int]  # the input of which an attribute gives the type
    lengths: Mapping[str, int]  # the attributes that give the lengths of lists of inputs
    kinds: Mapping[str, str]


@cache
def _told(kind: str, inputs: int) -> _Told:
    """Return what follows for the attributes of an op of a type with a number of inputs."""
    definition = op_definition(kind)
    types, lengths, at = {}, {}, 0
    for each in definition.input_arg:
        count = 1
        if each.number_attr:  # there is one list of inputs at most
            count = lengths[each.number_attr] = inputs - len(definition.input_arg) + 1
        if each.type_attr:
            types[each.type_attr] = at
        at += count
    return _Told(types, lengths, {each.name: each.type for each in definition.attr})


def _set(attribute: Any, kind: str, value: Any) -> None:
    if kind == "type":
        attribute.type = _enum(value)
    elif kind == "int":
        attribute.i = value
    elif kind == "bool":
        attribute.b = value
    elif kind == "shape":
        attribute.shape.CopyFrom(tf.TensorShape(value).as_proto())
    elif kind == "list(int)":
        attribute.list.i.extend(value)
    elif kind == "list(type)":
        attribute.list.type.extend(map(_enum, value))
    elif kind == "list(shape)":
        attribute.list.shape.extend(tf.TensorShape(each).as_proto() for each in value)
    else:
        attribute.s = value.encode()


def import_nodes(graph: tf.Graph, graph_def: Any) -> None:
    """Add nodes to a graph; raises ValueError if a node is not well formed."""
    try:
        add_nodes(graph, graph_def)
    except tf.errors.InvalidArgumentError as fault:
        raise ValueError(str(fault)) from fault
    with graph.as_default():  # outside of a graph, TensorFlow would add functions elsewhere
        for each in from_library(graph_def.library) if graph_def.library.function else ():
            each.add_to_graph(graph)


def count_inputs(node: Any) -> int:
    """Return the number of a node's data inputs, which come before what it waits for."""
    return sum(not each.startswith("^") for each in node.input)
