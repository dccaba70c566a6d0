"""`synthetic(1024, image = feature(float32, [224, 224, 3]))`: random numbers, for trying and measuring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import tensorflow as tf

from tfdeploy.data.options import BOUNDS, FLOATS, Tensors
from tfdeploy.data.sources.base import Context, Source
from tfdeploy.data.sources.features import Feature, features
from tfdeploy.data.transforms.arguments import MISSING, bind

if TYPE_CHECKING:
    from dsl import ir

LARGEST = 255


class Synthetic(Source):
    """`count` examples that are the same in every pass and every run with the same seed.

    Floats are uniform from 0 to 1, whole numbers from 0 to below `classes`, or to 255 without those.
    """

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        given = bind(call, others=True, count=MISSING, seed=0)
        self.length = given.integer("count", 1)
        self.seed = given.integer("seed")
        self.features = features(given)
        for each in self.features.values():
            if each.field.dtype == "string":
                given.refuse("makes numbers, no text", each.field.name)
            if each.field.ragged:
                given.refuse("makes tensors of a fixed size", each.field.name, "give the feature a size")
        self.fields = tuple(each.field for each in self.features.values())

    @property
    def per_record(self) -> bool:
        """Every example is drawn by itself, so that it does not depend on its neighbours."""
        return True

    def count(self) -> int:
        """Return how many were asked for."""
        return self.length

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
        if field.dtype in FLOATS:
            return tf.random.stateless_uniform(field.shape, seed, dtype=field.dtype)
        below = feature.classes or min(BOUNDS[field.dtype][1], LARGEST) + 1
        drawn = tf.random.stateless_uniform(field.shape, seed, 0, below, tf.int64)
        return tf.cast(drawn, field.dtype)
