"""Decoding JPEG and PNG."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def decode_image(data: Any, height: int, width: int, channels: int) -> Any:
    """Return the image in the bytes `data` as uint8[height, width, channels].

    One of another size is resized. Resizing is bilinear, and smooths where the image gets smaller. Grey
    images become coloured ones and the other way round, as `channels` asks.
    """
    image = tf.io.decode_image(data, channels=channels, expand_animations=False)
    image.set_shape([None, None, channels])
    resized = tf.image.resize(image, [height, width], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)
