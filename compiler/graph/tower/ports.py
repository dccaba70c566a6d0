"""Ports: placeholders of a traced tower, whose places the rest of the graph takes when it is stamped."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

SCOPE = "ports"


def make_port(dtype: Any, shape: Any, name: str) -> tf.Tensor:
    """Return a port of the tower that is being traced; `name` is its own among all ports."""
    with tf.name_scope(""):
        return tf.compat.v1.placeholder(dtype, shape, name=f"{SCOPE}/{name}")
