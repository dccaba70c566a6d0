"""The ops of one update by Keras's own rule, traced once in a graph of their own and written for each weight.

Keras makes its optimizer with the weight as the only one, and its update runs as a function on variables of
that graph. What comes out are nodes with placeholders for the variables, the gradient and the numbers of the
step, which other graphs have elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.graph.adapters.keras_private import (
    apply_alone,
    iterations_of,
    rate_of,
    replace_rate,
    weight_at,
)
from compiler.graph.adapters.tensorflow_private import add_control_input
from compiler.graph.nodes import UNPORTABLE
from compiler.graph.tower.template import WeightInfo
from compiler.graph.variables.variables import SlotSpec

GRADIENT, INDICES, RATE, STEP, WEIGHT = "gradient", "indices", "learning_rate", "iterations", "weight"
_ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")


class UnsupportedError(Exception):
    """An optimizer of the user's does what its rule for one weight does not show. The message says what."""


@frozen
class UpdateTrace:
    """An update as nodes."""

    nodes: Any = field(repr=False)  # a GraphDef without the placeholders that `inputs` names
    # By the names of placeholders what each of them is: one of the constants of this module, or the number of
    # a slot in `slots`.
    inputs: Mapping[str, str | int]
    slots: tuple[SlotSpec, ...]
    ends: tuple[str, ...]  # the names of the nodes after which the update is done

    def write(self, name: str, given: Mapping[str | int, tf.Tensor]) -> tf.Operation:
        """Write the update into the default graph; return the op that ends it."""
        graph = tf.compat.v1.get_default_graph()
        scope = f"{graph.unique_name(name)}/"
        outside = {placeholder: given[what] for placeholder, what in self.inputs.items()}
        with tf.name_scope(scope):
            begin = tf.no_op(name="begin")
        with tf.control_dependencies(None):  # only what takes something from outside waits for what is before
            ends = tf.import_graph_def(self.nodes, outside, self.ends, name=scope)
        for node in self.nodes.node:
            if any(each.partition(":")[0] in outside for each in node.input):
                add_control_input(graph.get_operation_by_name(scope + node.name), begin)
        with tf.control_dependencies(ends), tf.name_scope(scope):
            return tf.no_op(name="end")


def trace_update(
    make: Callable[[], Any], label: str, weight: WeightInfo, *, decays: bool, sparse: bool
) -> UpdateTrace:
    """Return the update of a weight by a Keras optimizer.

    Args:
        label: What the names of its slots begin with.
        weight: The weight; its name is the path that the optimizer sees.

    Raises:
        UnsupportedError: The optimizer does what cannot be followed for one weight.
        Exception: What the optimizer raises.
    """
    with tf.Graph().as_default() as graph:
        optimizer = make()
        rate = rate_of(optimizer)
        variable = weight_at(weight.name, weight.shape, weight.dtype)
        known = {each.op.name for each in _handles(graph)}
        optimizer.build([variable])
        made = [each for each in _handles(graph) if each.op.name not in known]
        _require_plain_slots(graph)

        def update(
            gradient: tf.Tensor, indices: tf.Tensor, learning_rate: tf.Tensor, step: tf.Tensor
        ) -> None:
            del step
            value: Any = gradient
            if sparse:
                value = tf.IndexedSlices(gradient, indices, tf.constant(weight.shape, tf.int64))
            if callable(rate):
                replace_rate(optimizer, lambda: learning_rate)
            apply_alone(optimizer, value, variable, learning_rate, decays=decays)

        shape = (None, *weight.shape[1:]) if sparse else weight.shape
        traced = tf.function(update, autograph=False).get_concrete_function(
            tf.TensorSpec(shape, weight.dtype, GRADIENT),
            tf.TensorSpec((None,), tf.int64, INDICES),
            tf.TensorSpec((), tf.float32, RATE),
            tf.TensorSpec((), tf.int64, STEP),
        )
        # What a variable is to the update, by its handle in this graph.
        parts: dict[str, str | int] = {variable.value.handle.op.name: WEIGHT}
        parts |= {each.op.name: number for number, each in enumerate(made)}
        read = {iterations_of(optimizer).value.handle.op.name: STEP}
        if not callable(rate):
            read[rate.value.handle.op.name] = RATE
        specs = [_slot(graph, each, weight) for each in made]
    return _as_nodes(traced, label, parts, read, specs)


def _handles(graph: tf.Graph) -> list[tf.Tensor]:
    return [op.outputs[0] for op in graph.get_operations() if op.type == "VarHandleOp"]


def _require_plain_slots(graph: tf.Graph) -> None:
    """Raise UnsupportedError if the optimizer changes variables while it makes them."""
    first: set[str] = set()
    for op in graph.get_operations():
        if op.type in _ASSIGNMENTS:
            if op.inputs[0].op.name in first or op.type != "AssignVariableOp":
                raise UnsupportedError("its `build` assigns to variables that it has made")
            first.add(op.inputs[0].op.name)


def _slot(graph: tf.Graph, handle: tf.Tensor, weight: WeightInfo) -> SlotSpec:
    """Return a slot that is like a variable of the traced graph; its name is given later."""
    (assigned,) = [
        op for op in graph.get_operations() if op.type == "AssignVariableOp" and op.inputs[0] is handle
    ]
    shape, dtype = tuple(tf.TensorShape(handle.op.get_attr("shape")).as_list()), handle.op.get_attr("dtype")
    initial = _initial(assigned.inputs[1], dtype)
    return SlotSpec("", initial, None if shape == weight.shape else shape, tf.as_dtype(dtype).name)


def _initial(value: tf.Tensor, dtype: tf.DType) -> float | Callable[[], tf.Tensor]:
    """Return the first value of a slot: the number that all its elements are, or what makes it."""
    while value.op.type == "Identity":
        value = value.op.inputs[0]
    static = tf.get_static_value(value.op.inputs[1] if value.op.type == "Fill" else value)
    if static is None:
        raise UnsupportedError("the first value of one of its variables is no constant")
    array = np.asarray(static)
    if dtype.is_floating and array.size > 0 and (array == array.flat[0]).all():
        return float(array.flat[0])
    return lambda: tf.constant(array, dtype, tf.TensorShape(value.shape))


def _as_nodes(
    traced: Any,
    label: str,
    parts: Mapping[str, str | int],
    read: Mapping[str, str],
    specs: Sequence[SlotSpec],
) -> UpdateTrace:
    """Return the nodes of a traced function, with its placeholders by what they are."""
    captured = traced.inputs[len(traced.inputs) - len(traced.captured_inputs) :]
    names = [each.op.name for each in traced.inputs[: len(traced.inputs) - len(captured)]]
    inputs: dict[str, str | int] = dict(zip(names, (GRADIENT, INDICES, RATE, STEP), strict=False))
    of_step = {what: name for name, what in inputs.items()}
    instead: dict[str, str] = {}
    for outer, inner in zip(traced.captured_inputs, captured, strict=True):
        name = outer.op.name
        if name in read:
            instead[inner.op.name] = of_step[read[name]]
        elif name in parts:
            inputs[inner.op.name] = parts[name]
        else:
            raise UnsupportedError("its update reads a variable that belongs to no weight")
    used = sorted({what for what in inputs.values() if isinstance(what, int)})
    numbers = {before: after for after, before in enumerate(used)}
    nodes = tf.compat.v1.GraphDef()
    definition = traced.graph.as_graph_def()
    nodes.library.CopyFrom(definition.library)
    nodes.node.extend(_portable(definition.node, {*inputs, *instead}, instead))
    taken = {each.partition(":")[0] for node in nodes.node for each in node.input}
    return UpdateTrace(
        nodes,
        {
            name: numbers[what] if isinstance(what, int) else what
            for name, what in inputs.items()
            if name in taken
        },
        tuple(
            evolve(specs[before], suffix=f"{label}_{after}" if after else label)
            for after, before in enumerate(used)
        ),
        tuple(each.name for each in traced.graph.control_outputs),
    )


def _portable(nodes: Sequence[Any], placeholders: set[str], instead: Mapping[str, str]) -> Iterator[Any]:
    """Yield all nodes but placeholders; reads of what is given as a value become that value."""
    for node in nodes:
        if node.name in placeholders:
            continue
        for each in UNPORTABLE:
            node.attr.pop(each, None)
        if any(each in instead for each in node.input):
            if node.op != "ReadVariableOp":
                raise UnsupportedError("its update changes its learning rate or its count of iterations")
            kind = node.attr.pop("dtype").type
            node.op, node.input[0] = "Identity", instead[node.input[0]]
            node.attr["T"].type = kind
        yield node
