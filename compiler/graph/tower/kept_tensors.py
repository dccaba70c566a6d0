"""Tensors that a Keras layer keeps from when it was built, which belong to the graph of that time."""

from __future__ import annotations

import keras


def renew_constants(layer: keras.Layer) -> None:
    """Let `layer` and those in it have their kept tensors in the graph that is the default one.

    `Normalization` computes its mean and variance once, when it is built; a layer is built in a graph that is
    thrown away, and called in others. Tensors from weights are made of the ports by which these are known in
    the stateless scope that is open.
    """
    for each in layer._flatten_layers():  # noqa: SLF001  # Keras has no public name for it
        if not isinstance(each, keras.layers.Normalization) or not each.built:
            continue
        if each.input_mean is None:
            each.finalize_state()
        else:
            each.build(each._build_input_shape)  # noqa: SLF001  # as above
