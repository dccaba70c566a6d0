"""Mixed precision: layers compute in a type of 16 bits, their variables stay float32.

Keras's dtype policies do the work: a layer converts its inputs and, where it uses them, its variables. The
gradient of a conversion is a conversion back, so gradients of variables are float32. Losses and metrics are
made in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from compiler.graph.adapters.keras_private import flattened_layers, keep_table_dtype


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Let layers that are made inside have a dtype policy, unless they ask for another.

    Keras keeps one policy for the process; it is put back.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def keep_tables(layer: keras.Layer) -> None:
    """Let embeddings convert the rows that they look up and not, at every step, the whole table.

    It also keeps their gradients sparse.
    """
    for each in flattened_layers(layer):
        if type(each) is keras.layers.Embedding and each.built:
            keep_table_dtype(each)
