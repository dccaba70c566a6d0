"""`synthetic(1024, image = feature(float32, [224, 224, 3]))`: random numbers, for trying and measuring."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import tensorflow as tf

from dsl import ir
from tfdeploy.data.arguments import Feature, features
from tfdeploy.data.options import BOUNDS, FLOATS, ROUGH_SIZE, Tensors
from tfdeploy.data.sources.base import Context, Source

LARGEST = 255
SIZES = crc32(b"sizes of free axes")


class Synthetic(Source):
    """`count` examples that are the same in every pass and every run with the same seed.

    Floats are uniform from 0 to 1, whole numbers from 0 to below `classes`, or to 255 without those. A first
    axis without a fixed size has a random size, from 1 to that of the input, or to the one that forecasts
    assume for it. Tensors with the same largest size have the same size in each example.
    """

    per_record = True  # so that an example does not depend on its neighbours

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.length: int = self.given["count"]
        self.seed: int = self.given["seed"]
        self.features = features(self.given)
        for each in self.features.values():
            if each.field.dtype == "string":
                self.given.refuse("makes numbers, no text", each.field.name)
        self.fields = tuple(each.field for each in self.features.values())

    def records(self) -> Any:
        """Return the numbers of the examples."""
        return tf.data.Dataset.range(self.length)

    def decode(self, record: Any) -> Tensors:
        """Draw one example from its number."""
        return {name: self._draw(each, record) for name, each in self.features.items()}

    def _draw(self, feature: Feature, number: Any) -> Any:
        field = feature.field
        stream = (self.seed * 1_000_003 + crc32(field.name.encode())) % 2**31
        seed = tf.stack([tf.constant(stream, tf.int64), number])
        shape = [self._size(field.name, number) if each is None else each for each in field.shape]
        if field.dtype in FLOATS:
            drawn = tf.random.stateless_uniform(shape, seed, dtype=field.dtype)
        else:
            below = feature.classes or min(BOUNDS[field.dtype][1], LARGEST) + 1
            drawn = tf.cast(tf.random.stateless_uniform(shape, seed, 0, below, tf.int64), field.dtype)
        return tf.ensure_shape(drawn, field.shape)

    def _size(self, name: str, number: Any) -> Any:
        """Return the size of an axis without a fixed size in an example; an int32 scalar."""
        seed = tf.stack([tf.constant((self.seed * 1_000_003 + SIZES) % 2**31, tf.int64), number])
        part = tf.random.stateless_uniform((), seed, dtype=tf.float64)
        longest = self.context.longest.get(name, ROUGH_SIZE)
        return 1 + tf.minimum(tf.cast(part * longest, tf.int32), longest - 1)
