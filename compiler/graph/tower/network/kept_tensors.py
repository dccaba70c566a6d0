"""Tensors that a Keras layer keeps from its `build`, which belong to the graph in which it was built."""

from __future__ import annotations

import keras

from compiler.graph.adapters.keras_private import flattened_layers, input_shape_of


def renew_constants(layer: keras.Layer) -> None:
    """Make the tensors that a layer, and the layers inside it, keep anew in the default graph.

    `Normalization` computes its mean and variance once, when it is built. A layer is built in a graph that is
    discarded, and called in others. Tensors that depend on weights are computed from the ports that replace
    the weights in the open stateless scope.
    """
    for each in flattened_layers(layer):
        if not isinstance(each, keras.layers.Normalization) or not each.built:
            continue
        if each.input_mean is None:
            each.finalize_state()
        else:
            each.build(input_shape_of(each))
