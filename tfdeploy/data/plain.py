"""Functions for tf.data that are taken as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep TensorFlow from rewriting `function`, which decides nothing by the values of tensors."""
    untouched: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return untouched
