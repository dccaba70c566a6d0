"""What plain Keras has no layer for."""

from typing import Any

import keras


class Same(keras.layers.Layer):  # type: ignore[misc] # Keras has no types
    """A trainable tensor that is the same for all examples."""

    def __init__(self, shape: tuple[int, ...], name: str) -> None:
        super().__init__(name=name)
        self.value = self.add_weight(name="weight", shape=shape)

    def call(self, inputs: Any) -> Any:
        """Return the tensor once for each example."""
        return keras.ops.broadcast_to(self.value, (keras.ops.shape(inputs)[0], *self.value.shape))


class Added(keras.layers.Layer):  # type: ignore[misc]
    """Adds the mean over the batch of a tensor with one number for each example to the loss."""

    def call(self, inputs: Any) -> Any:
        """Return the tensor unchanged."""
        self.add_loss(keras.ops.mean(inputs))
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the input, without a trial call: Keras takes `x - 1` for a sparse tensor."""
        return input_shape
