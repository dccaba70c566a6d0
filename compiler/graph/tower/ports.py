"""Ports: placeholders of a traced tower that are replaced by other tensors when the tower is stamped."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

SCOPE = "ports"


def make_port(dtype: Any, shape: Any, name: str) -> tf.Tensor:
    """Return a port of the tower that is being traced.

    Args:
        dtype: Its type.
        shape: Its shape.
        name: Its name, which no other port has.
    """
    with tf.name_scope(""):
        return tf.compat.v1.placeholder(dtype, shape, name=f"{SCOPE}/{name}")
