"""The examples for a verification, and a model that draws no random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import evolve

from compiler.graph.session_options import helper_config
from compiler.model.graph import InputNode, ModelGraph
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.schema.signatures import find, takes_class_numbers, takes_one_hot
from tfdeploy.data import Field, StreamOptions, open_split
from tfdeploy.runtime.plans import folder_of, no_training_data

LONGEST = 16
"""The largest size of made-up examples along an axis without a fixed size."""
LARGEST_IMAGE = 96
"""The same along two such axes, which are those of an image: it has to outlast all that makes it smaller."""


def longest(free: int) -> int:
    """Return the largest size of made-up examples along each of `free` axes without a fixed size."""
    return LARGEST_IMAGE if free == 2 else LONGEST  # noqa: PLR2004 height and width


def read_examples(spec: ir.Spec, model: ModelGraph, count: int, seed: int) -> dict[str, Any]:
    """Return the first `count` examples of the training data, as arrays; small data comes round again.

    Returns:
        The arrays by the names of the inputs, each with the examples along its first axis.

    Raises:
        SpecError: The spec has no training data.
    """
    if spec.data is None or spec.data.train is None:
        raise SpecError([no_training_data(spec, "`data.train` (or `--synthetic`)")])
    wanted = [Field(each.name, each.dtype, each.shape, assumed=each.assumed_shape) for each in model.inputs]
    options = StreamOptions(base=folder_of(spec), seed=seed, deterministic=True, training=True)
    stream = open_split(spec.data.train, wanted, options)
    stream.check()
    with tf.Graph().as_default() as graph:
        batches = stream.batches(count, repeat=True, drop_remainder=True)
        batch = tf.compat.v1.data.make_one_shot_iterator(batches).get_next()
        with tf.compat.v1.Session(graph=graph, config=helper_config()) as session:
            found: dict[str, Any] = session.run(batch)
    return found


def make_examples(model: ModelGraph, classes: Mapping[str, int], count: int, seed: int) -> dict[str, Any]:
    """Return `count` made-up examples: normal floats, and whole numbers below those of `classes`.

    Weights of examples are not negative. Along a first axis without a fixed size, examples have different
    lengths, and are filled up as batches of the training data are.
    """
    generator = np.random.default_rng(seed)
    found = {
        each.name: _made_up(model, each, classes.get(each.name, 2), count, generator) for each in model.inputs
    }
    lengths = generator.integers(1, LONGEST + 1, count)
    for each in model.inputs:
        if each.free and each.free[0].axis == 0:
            behind = np.arange(found[each.name].shape[1]) >= lengths[:, None]
            found[each.name][behind] = each.padding
    return found


def _made_up(
    model: ModelGraph, node: InputNode, classes: int, count: int, generator: np.random.Generator
) -> Any:
    sizes = (
        min(longest(len(node.free)), size) if free is None else size
        for size, free in zip(node.assumed_shape, node.shape, strict=True)
    )
    shape, dtype = (count, *sizes), tf.as_dtype(node.dtype)
    losses = {each.call.name for each in model.losses if each.target == node.value}
    if dtype.is_integer or dtype.is_bool:
        return generator.integers(0, classes, shape).astype(dtype.as_numpy_dtype)
    if any(name.startswith("Binary") for name in losses):
        return generator.integers(0, 2, shape).astype(dtype.as_numpy_dtype)
    if any(takes_one_hot(name) for name in losses):
        return np.eye(shape[-1], dtype=dtype.as_numpy_dtype)[generator.integers(0, shape[-1], shape[:-1])]
    found = generator.standard_normal(shape).astype(dtype.as_numpy_dtype)
    weighs = any(each.example_weights == node.value for each in (*model.losses, *model.metrics))
    return np.abs(found) if weighs else found


def count_classes(model: ModelGraph, widths: Mapping[int, int]) -> dict[str, int]:
    """Return below which number the whole numbers of each input must be.

    `widths` has the last dimension of values of the model. An index into a table is below the table's length,
    the target of a loss below the number of its predictions; of what is neither nothing is said.
    """
    found: dict[str, int] = {}
    for each in model.inputs:
        lengths = [*_lengths(model, each.value)]
        lengths += [
            widths[loss.prediction]
            for loss in model.losses
            if loss.target == each.value and takes_class_numbers(loss.call.name) and loss.prediction in widths
        ]
        if lengths:
            found[each.name] = min(lengths)
    return found


_KEEPING = frozenset(
    {"cast", "concatenate", "expand_dims", "flatten", "permute", "reshape", "split", "squeeze", "stack"}
    | {"swapaxes", "transpose", "unstack"}
)
"""Layers and functions, in small letters, that give numbers as they get them."""


def _lengths(model: ModelGraph, ids: int) -> Iterator[int]:
    """Yield the lengths of the tables in which a value of the model is looked up, also after other shapes."""
    shapes: dict[int, tuple[int, ...]] = {}
    same = {ids}
    for call in model.calls:
        node, table, others = model.layers[call.layer], next(iter(call.inputs), None), call.inputs[1:]
        if node.call.name == "weight":
            shapes[call.values[0]] = node.weight_shape
        elif node.call.name.lower() in _KEEPING and not same.isdisjoint(call.inputs):
            same.update(call.values)
        elif node.call.name == "Embedding" and table in same:
            length = node.call.args[0] if node.call.args else node.call.kwargs["input_dim"]
            assert isinstance(length, int)
            yield length
        elif node.call.name in ("getitem", "take") and table in same:
            same.update(call.values)
        elif node.call.name in ("getitem", "take") and table in shapes and not same.isdisjoint(others):
            yield min(shapes[table])  # whichever axis they choose from


# A model without random numbers. Every clone draws its own, so that no two layouts draw the same numbers.
#
# Rates of dropout and noise become zero when the layers are made, and random changes of images are left out
# here. The rest of a step can then be compared with one tower on the whole batch.

AUGMENTATIONS = ("AugMix", "RandAugment")


def without_randomness(model: ModelGraph) -> ModelGraph:
    """Return the model without the known layers that draw random numbers in training."""
    layers = (
        evolve(each, call=_call_without_randomness(each.call)) if each.kind == "layer" else each
        for each in model.layers
    )
    return evolve(model, layers=tuple(layers), draws=False)


def _call_without_randomness(call: ir.Call) -> ir.Call:
    if call.name == "RandomCrop":
        sizes = {key: value for key, value in call.kwargs.items() if key != "seed"}
        return evolve(call, name="CenterCrop", kwargs=sizes)
    changes = call.name.startswith("Random") and find("layer", call.name)  # which initializers do not
    if changes or call.name in AUGMENTATIONS:
        return ir.Call("Identity", span=call.span)
    kwargs = {key: _value_without_randomness(value) for key, value in call.kwargs.items()}
    return evolve(call, args=tuple(_value_without_randomness(each) for each in call.args), kwargs=kwargs)


def _value_without_randomness(value: ir.Value) -> ir.Value:
    if isinstance(value, tuple):
        return tuple(_value_without_randomness(each) for each in value)
    return _call_without_randomness(value) if isinstance(value, ir.Call) else value
