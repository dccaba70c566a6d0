"""The table of optimizers: for each name, its update rule and Keras's class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
from attrs import field, frozen

from compiler.graph.optimizers.adadelta import Adadelta
from compiler.graph.optimizers.adagrad import Adagrad
from compiler.graph.optimizers.adam import Adam
from compiler.graph.optimizers.base import Optimizer
from compiler.graph.optimizers.ftrl import Ftrl
from compiler.graph.optimizers.momentum import Momentum
from compiler.graph.optimizers.rmsprop import RMSprop
from compiler.graph.optimizers.sgd import GradientDescent


@frozen
class Entry:
    """An optimizer of the language.

    Attributes:
        keras_class: Keras's class, which checks and holds the hyperparameters.
        rule: Returns the update rule for the settings of Keras's object.
        defaults: The defaults that differ from Keras's own.
    """

    keras_class: Callable[..., Any]
    rule: Callable[[Any], type[Optimizer]]
    defaults: Mapping[str, Any] = field(factory=dict)


def _descent(settings: Any) -> type[Optimizer]:
    return Momentum if settings.momentum else GradientDescent


OPTIMIZERS: dict[str, Entry] = {
    "SGD": Entry(keras.optimizers.SGD, _descent),
    "Momentum": Entry(keras.optimizers.SGD, lambda _: Momentum, {"momentum": 0.9}),
    "Adam": Entry(keras.optimizers.Adam, lambda _: Adam),
    "AdamW": Entry(keras.optimizers.AdamW, lambda _: Adam),
    "RMSprop": Entry(keras.optimizers.RMSprop, lambda _: RMSprop),
    "Adagrad": Entry(keras.optimizers.Adagrad, lambda _: Adagrad),
    "Adadelta": Entry(keras.optimizers.Adadelta, lambda _: Adadelta),
    "Ftrl": Entry(keras.optimizers.Ftrl, lambda _: Ftrl),
}
