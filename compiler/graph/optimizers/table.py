"""Which optimizers there are: name -> update rule, Keras's class, and the options that the rule honours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from compiler.graph.optimizers.adam import Adam
from compiler.graph.optimizers.base import Optimizer
from compiler.graph.optimizers.sgd import GradientDescent, Momentum


def _sgd(settings: Any, learning_rate: Any) -> Optimizer:
    return (
        Momentum(settings, learning_rate) if settings.momentum else GradientDescent(settings, learning_rate)
    )


OPTIMIZERS: dict[str, tuple[Callable[[Any, Any], Optimizer], Callable[..., Any], tuple[str, ...]]] = {
    "SGD": (_sgd, keras.optimizers.SGD, ("learning_rate", "momentum", "nesterov")),
    "Momentum": (
        Momentum,
        partial(keras.optimizers.SGD, momentum=0.9),
        ("learning_rate", "momentum", "nesterov"),
    ),
    "Adam": (Adam, keras.optimizers.Adam, ("learning_rate", "beta_1", "beta_2", "epsilon")),
}
