"""A layer and a loss of a user's, for `varied.tfdeploy`."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN003, ANN201, ANN204, D101, D102, D103

import keras
from keras import ops


class Scaled(keras.layers.Layer):
    def __init__(self, inner, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner

    def build(self, input_shape):
        self.inner.build(input_shape)
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones")
        super().build(input_shape)

    def call(self, x):
        made = self.inner(x)
        self.add_loss(0.01 * ops.mean(ops.square(made)))
        return self.scale * made


def focal(target, prediction, gamma=2.0):
    chances = ops.softmax(prediction)
    p = ops.take_along_axis(chances, ops.cast(target, "int32")[:, None], axis=-1)[:, 0]
    return -((1 - p) ** gamma) * ops.log(p)
