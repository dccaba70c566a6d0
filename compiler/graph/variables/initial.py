"""First values of the pieces of a variable: bit for bit those of the same variable in one piece.

An initializer is called once, for the whole variable, in a graph of its own that never runs. Its result is
then followed back: ops on single elements are written again for the elements of a piece, and random numbers
are drawn at the places that these elements have in the whole. TensorFlow's stateless random ops make it
possible, because they compute number n from a counter that grows with n (Salmon et al., Parallel random
numbers: as easy as 1, 2, 3, 2011). So no device ever holds the whole.

A value that cannot be followed, because an initializer looks at the whole (`Orthogonal`, `Identity`) or is
code that draws with a state, is made whole on the device of the first piece, and cut there.

First values are traced once and written for each graph that has the variable, because TensorFlow's functions
for single ops take most of the time in which variables are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import unwrap
from itertools import pairwise
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import keras
import tensorflow as tf
from attrs import define, field

from compiler.graph.fragments import fragment_of
from compiler.graph.tower.template import WeightInfo
from compiler.shards import Shard
from compiler.step.record import Fragment

_GROUP = 4
"""The numbers that one value of the counter gives; a range must begin at a multiple of it."""

_COUNTS_PER_GROUP = {
    "StatelessRandomUniformV2": 1,
    "StatelessRandomNormalV2": 1,
    "StatelessTruncatedNormalV2": 256,  # as many are kept for each group, because some draws are rejected
}
_TYPES = (tf.float32, tf.float16, tf.bfloat16)
"""The types for which groups have `_GROUP` numbers."""

_ALGORITHMS = (1, 3)
"""The numbers of TensorFlow's random algorithms that count so: Philox, and the choice by the device."""

_SINGLE = {
    *("Abs", "Add", "AddV2", "Cast", "Exp", "Identity", "Log", "Maximum", "Minimum", "Mul", "Neg", "Pow"),
    *("RealDiv", "Sqrt", "Square", "Sub", "Tanh"),
}
"""Types of ops whose every element depends on the same element of each input alone."""

_MOST_BLOCKS = 16
_SMALL_BLOCK = 1 << 16
"""A piece along another axis than the first is made of at most so many blocks, each of so many numbers."""


class _NotFollowed(Exception):  # noqa: N818 it is caught here
    """An op that does not show how a part of its result can be made alone."""


@define
class FirstValue:
    """The first value of a variable in pieces."""

    info: WeightInfo
    shards: Sequence[Shard]
    # Whether the whole is made on one device, once the first piece has been asked for.
    made_whole: bool = False
    _source: tf.Tensor | None = field(default=None, repr=False)
    _pieces: Sequence[tf.Tensor] = field(default=(), repr=False)

    def piece(self, number: int) -> tf.Tensor:
        """Return the first value of a piece, made on the current device. Begin with piece 0."""
        if self._source is None:
            with tf.Graph().as_default():
                self._source = called(self.info)
        if not self.made_whole:
            try:
                return _Follower(self.shards[number]).follow(self._source)
            except _NotFollowed:
                self.made_whole = True
        if not self._pieces:
            sizes, axis = [each.size for each in self.shards], self.shards[0].axis
            self._pieces = tf.split(called(self.info), sizes, axis, name="cut")
        return self._pieces[number]


@define
class _Follower:
    """Writes the ops of one piece into the default graph."""

    shard: Shard
    _copies: dict[str, Any] = field(factory=dict)

    def follow(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return the piece of a tensor of another graph, which has the shape of the whole.

        Raises:
            _NotFollowed: The tensor is not made element by element.
        """
        if not tensor.shape.is_fully_defined():
            raise _NotFollowed
        shape, op = tensor.shape.as_list(), tensor.op
        aligned = len(shape) - len(self.shard.whole) + self.shard.axis
        if aligned < 0 or shape[aligned] == 1 != self.shard.whole[self.shard.axis]:
            return self._copy(tensor)  # the same number for all elements along the axis
        if op.type in _COUNTS_PER_GROUP and tuple(shape) == self.shard.whole:
            return self._random(op)
        if op.type in _SINGLE:
            return self._again(op, [self.follow(each) for each in op.inputs])
        if op.type == "Fill":
            shape[aligned] = self.shard.size
            return tf.fill(shape, self._copy(op.inputs[1]))
        if op.type == "Const":
            value = tf.make_ndarray(op.get_attr("value"))
            if value.size and (value == value.flat[0]).all():  # not as many equal numbers in the graph
                shape[aligned] = self.shard.size
                return tf.fill(shape, tf.constant(value.flat[0], tensor.dtype))
            part = (*(slice(None),) * aligned, slice(self.shard.start, self.shard.stop))
            return tf.constant(value[part])
        raise _NotFollowed

    def _copy(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return a tensor of the other graph made again here, with all that it depends on."""
        op = tensor.op
        if op.name not in self._copies:
            if op.op_def.is_stateful or op.control_inputs or tensor.shape.num_elements() is None:
                raise _NotFollowed
            self._copies[op.name] = self._again(op, [self._copy(each) for each in op.inputs]).op
        return self._copies[op.name].outputs[tensor.value_index]

    def _again(self, op: Any, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        attributes = dict(op.node_def.attr)
        if any(each.HasField("func") for each in attributes.values()):
            raise _NotFollowed
        attributes.pop("_class", None)
        kinds = [each.dtype for each in op.outputs]
        graph, name = tf.compat.v1.get_default_graph(), op.type
        return graph.create_op(op.type, list(inputs), kinds, name=name, attrs=attributes).outputs[0]

    # --- random numbers -----------------------------------------------------------------------------------

    def _random(self, op: Any) -> tf.Tensor:
        """Return the random numbers of the piece."""
        algorithm = tf.get_static_value(op.inputs[3])
        if op.outputs[0].dtype not in _TYPES or algorithm is None or int(algorithm) not in _ALGORITHMS:
            raise _NotFollowed
        key, counter = self._copy(op.inputs[1]), self._copy(op.inputs[2])
        algorithm = self._copy(op.inputs[3])

        def draw(begin: int, end: int) -> tf.Tensor:
            """Return the numbers from `begin` to `end` of the whole in the order of its elements."""
            groups, before = divmod(begin, _GROUP)
            ahead = tf.constant([groups * _COUNTS_PER_GROUP[op.type], 0], counter.dtype)
            shape = tf.constant([end - begin + before], tf.int64)
            number = tf.compat.v1.AttrValue(type=tf.int64.as_datatype_enum)
            attributes = {"dtype": op.node_def.attr["dtype"], "Tshape": number}
            drawn = tf.compat.v1.get_default_graph().create_op(
                op.type,
                [shape, key, counter + ahead, algorithm],
                [op.outputs[0].dtype],
                name=op.type,
                attrs=attributes,
            )
            numbers = drawn.outputs[0]
            return numbers[before:] if before else numbers

        return self._blocks(draw)

    def _blocks(self, draw: Callable[[int, int], tf.Tensor]) -> tf.Tensor:
        """Return the piece from the numbers of the whole that it is made of.

        Along the first axis these are one range. Along another, they are in ranges between those of other
        pieces, so that blocks of the whole are made one after the other, of which only the piece is kept.
        """
        shard = self.shard
        outer, inner = prod(shard.whole[: shard.axis]), prod(shard.whole[shard.axis :])
        row = prod(shard.whole[shard.axis + 1 :])
        if outer == 1:
            return tf.reshape(draw(shard.start * row, shard.stop * row), shard.shape)
        count = max(1, min(outer, _MOST_BLOCKS, outer * inner // _SMALL_BLOCK))
        edges = [outer * at // count for at in range(count + 1)]
        kept: list[tf.Tensor] = []
        for begin, end in pairwise(edges):
            with tf.control_dependencies(kept[-1:]):
                block = tf.reshape(draw(begin * inner, end * inner), [end - begin, inner // row, row])
                kept.append(block[:, shard.start : shard.stop])
        return tf.reshape(tf.concat(kept, 0) if len(kept) > 1 else kept[0], shard.shape)


_PLAIN = (keras.initializers.Zeros, keras.initializers.Ones)
"""Initializers whose values are the same for all weights of a shape, and for all their elements."""

_MOST_BYTES = 1 << 20
"""Nodes that take more bytes, because they hold many numbers, are not kept."""


_known: WeakKeyDictionary[Any, dict[tuple[tuple[int, ...], str], Fragment | None]] = WeakKeyDictionary()


def called(info: WeightInfo) -> tf.Tensor:
    """Return the first value of a weight, made in the default graph."""
    return tf.cast(info.initializer(info.shape, dtype=info.dtype), info.dtype)


def is_plain(initializer: Any) -> bool:
    """Whether an initializer gives all elements the same number, whatever the shape."""
    return type(unwrap(initializer)) in _PLAIN


def first_nodes(info: WeightInfo) -> Fragment | None:
    """Return the nodes that make the first value of a weight.

    Returns:
        None if the value has to be made in the graph that has the variable: random ops with a state draw
        other numbers in another graph.
    """
    own = unwrap(info.initializer)
    owner = type(own) if type(own) in _PLAIN else info.initializer
    kinds = _known.setdefault(owner, {})
    key = (tuple(info.shape), info.dtype)
    if key not in kinds:
        kinds[key] = _traced(info)
    return kinds[key]


def _traced(info: WeightInfo) -> Fragment | None:
    with tf.Graph().as_default() as graph:
        value = called(info)
        if any(each.op_def.is_stateful for each in graph.get_operations()):
            return None
        found = fragment_of(graph, value)
    fits = not found.nodes.library.function and found.nodes.ByteSize() <= _MOST_BYTES
    return found if fits else None
