"""Random numbers of examples: each follows from a seed, the pass, and the example's number in its source.

Nothing else is used, so that an example gets the same numbers whatever the batch, the clone, the worker and
the process that reads it, and also if a run is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

BITS = 24
"""The bits of a random number: as many as float32 represents exactly below 1."""


@frozen
class Keys:
    """Which examples the rows of a batch are.

    Attributes:
        passes: The number of the pass of each row, an int64 tensor of shape [rows].
        numbers: The number of the record of each row in its source, an int64 tensor of shape [rows].
        seed: The seed of the random numbers, from 0 to 2**63 - 1.
    """

    passes: Any
    numbers: Any
    seed: int

    def for_change(self, index: int) -> Keys:
        """Return the keys of the transform number `index` of a split, which draws numbers of its own."""
        digest = blake2b(f"{self.seed}/{index}".encode(), digest_size=8).digest()
        return evolve(self, seed=int.from_bytes(digest) >> 1)

    def without_last(self) -> Keys:
        """Return the keys of all rows but the last."""
        return evolve(self, passes=self.passes[:-1], numbers=self.numbers[:-1])

    def uniform(self, draw: int) -> Any:
        """Return a random number of each row.

        Args:
            draw: Which of the numbers of the example to return. Different draws are independent.

        Returns:
            Numbers that are at least 0 and below 1, a float32 tensor of shape [rows].
        """
        return tf.squeeze(self._uniforms([draw]), 0)

    def _uniforms(self, draws: Sequence[int]) -> Any:
        """Return the numbers of several draws, of shape [draws, rows], in about the time of one."""
        own = tf.stack([self.passes, self.numbers], axis=-1)
        rows = tf.shape(own)[0] if own.shape[0] is None else own.shape[0]
        shape = [len(draws), rows, 2]
        given = tf.constant([[[self.seed, draw]] for draw in draws], tf.int64)
        keys = tf.concat([tf.broadcast_to(given, shape), tf.broadcast_to(own, shape)], axis=-1)
        bits = tf.bitcast(tf.fingerprint(tf.reshape(keys, [-1, 4]))[:, :4], tf.uint32)
        numbers = tf.bitwise.right_shift(bits, tf.constant(32 - BITS, tf.uint32))
        return tf.reshape(tf.cast(numbers, tf.float32) / 2**BITS, shape[:2])

    def between(self, draw: int, low: float, high: float) -> Any:
        """Return a random number of each row from `low` to `high`, a float32 tensor of shape [rows]."""
        return low + (high - low) * self.uniform(draw)

    def below(self, counts: Mapping[int, int]) -> list[Any]:
        """Return random whole numbers of each row from 0 to a count - 1, int32 tensors of shape [rows].

        Args:
            counts: How many numbers there are to choose from, at least 1, by the number of the draw: each
                draws other numbers from the same keys.
        """
        limits = tf.constant([[count] for count in counts.values()], tf.float32)
        return list(tf.unstack(tf.cast(self._uniforms(list(counts)) * limits, tf.int32)))

    def beta(self, alpha: float) -> Any:
        """Return a random number of each row from the distribution Beta(alpha, alpha).

        The number is the quantile of a uniform number, found by halving the interval.

        Returns:
            Numbers from 0 to 1, a float32 tensor of shape [rows].
        """
        wanted = tf.cast(self.uniform(0), tf.float64)
        parameter = tf.fill(tf.shape(wanted), tf.constant(alpha, tf.float64))
        low = tf.zeros_like(wanted)
        for step in range(1, BITS + 1):
            middle = low + 2.0**-step
            low = tf.where(tf.math.betainc(parameter, parameter, middle) <= wanted, middle, low)
        return tf.cast(low, tf.float32)
