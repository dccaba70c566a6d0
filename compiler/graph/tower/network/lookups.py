"""Look-ups in vocabularies without tables, so that a tower has no state but its weights.

Keras's `StringLookup`, `IntegerLookup` and `TextVectorization` look words up in a hash table, which is a
resource: it belongs to one graph, lives on one device, and has to be filled in every session. In a tower, the
vocabulary is constant instead: its keys are sorted, and a binary search finds the place of a word. Strings
are sorted by a hash of 64 bits; the word at the place that is found is compared with the word that was
sought, so that a word that is not in the vocabulary is never taken for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.keras_private import flattened_layers, freeze_lookup
from compiler.graph.session_options import helper_config

MOST_SALTS = 16


@frozen
class SortedTable:
    """A vocabulary that can be searched, in the stead of a hash table."""

    keys: np.ndarray[Any, Any]  # the keys, in the order of `marks`
    values: np.ndarray[Any, Any]
    # What the search compares: the keys themselves, or hashes of strings, in ascending order.
    marks: np.ndarray[Any, Any]
    salt: int | None  # the salt of the hashes; None for keys that are no strings
    default: Any  # the value of all other keys

    @classmethod
    def of(cls, keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any], default: Any) -> SortedTable:
        """Return the table with the value of each key, and the value of all other keys.

        Args:
            keys: The keys, all different, of shape [n].
        """
        marks, salt = (keys, None) if keys.dtype != object else _distinct_hashes(keys)
        order = np.argsort(marks)
        return cls(keys[order], values[order], marks[order], salt, default)

    def lookup(self, sought: tf.Tensor) -> tf.Tensor:
        """Return the value of each key, or the default."""
        marks = sought if self.salt is None else _hashed(sought, self.salt)
        found = tf.raw_ops.LowerBound(
            sorted_inputs=self.marks[None], values=tf.reshape(marks, [1, -1]), out_type=tf.int64
        )
        place = tf.minimum(tf.reshape(found, tf.shape(sought)), np.int64(len(self.keys) - 1))
        known = tf.equal(tf.gather(tf.constant(self.keys), place), sought)
        return tf.where(known, tf.gather(tf.constant(self.values), place), self.default)


def _distinct_hashes(words: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    """Return a hash of each word, all of them different, and the salt that `_hashed` needs for that."""
    for salt in range(MOST_SALTS):
        with tf.Graph().as_default(), tf.compat.v1.Session(config=helper_config()) as session:
            marks = session.run(_hashed(tf.constant(words), salt))
        if len(np.unique(marks)) == len(words):
            return marks, salt
    raise AssertionError(f"{MOST_SALTS} hashes of 64 bits are equal for two words of a vocabulary")


def _hashed(words: tf.Tensor, salt: int) -> tf.Tensor:
    if salt == 0:
        return tf.strings.to_hash_bucket_fast(words, 2**63 - 1)
    return tf.strings.to_hash_bucket_strong(words, 2**63 - 1, key=[salt, salt])


def _made_frozen(maker: type[keras.Layer], *args: Any, **kwargs: Any) -> keras.Layer:
    """Return a layer for towers, made from the arguments of its class."""
    with tf.Graph().as_default(), tf.compat.v1.Session(config=helper_config()) as session:
        layer = maker(*args, **kwargs)
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])
        for each in flattened_layers(layer):
            if isinstance(each, (keras.layers.StringLookup, keras.layers.IntegerLookup)):
                freeze_lookup(each, session.run, SortedTable.of)
    return layer


LOOKUPS: Mapping[Any, Callable[..., keras.Layer]] = {
    each: partial(_made_frozen, each)
    for each in (keras.layers.StringLookup, keras.layers.IntegerLookup, keras.layers.TextVectorization)
}
"""What makes the layers that look words up for towers, by Keras's classes."""
