"""Mixed precision: layers compute in a type of 16 bits, and their variables remain float32.

Keras's dtype policies do this: a layer converts its inputs, and its variables when it uses them. The gradient
of a conversion is a conversion back, so gradients of variables are float32. Losses and metrics are made in
float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from compiler.graph.adapters.keras_private import flattened_layers, keep_table_dtype


@contextmanager
def dtype_policy(name: str) -> Iterator[None]:
    """Set the dtype policy of layers that are made inside and have none of their own.

    Keras has one policy for the process, which is restored.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def keep_tables(layer: keras.Layer) -> None:
    """Let embeddings convert the rows that they look up, and not the whole table at every step.

    Their gradients stay sparse because of this.
    """
    for each in flattened_layers(layer):
        if type(each) is keras.layers.Embedding and each.built:
            keep_table_dtype(each)
