"""The table of optimizers: for each name, its update rule and Keras's class."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import keras
from attrs import field, frozen

from compiler.graph.adapters.keras_private import uses_adamw
from compiler.graph.optimizers.adam import Adam, LazyAdam, LazyAdamax
from compiler.graph.optimizers.base import Optimizer
from compiler.graph.optimizers.keras_rule import KerasRule
from compiler.graph.optimizers.sgd import GradientDescent, Momentum
from compiler.graph.optimizers.squares import Adadelta, Adagrad, CentredRMSprop, Ftrl, RMSprop
from compiler.graph.tower.template import WeightInfo


@frozen
class Entry:
    """An optimizer of the language."""

    keras_class: Callable[..., Any]  # Keras's class, which checks and holds the hyperparameters
    rule: Callable[[Any], type[Optimizer]]  # returns the update rule for the settings of Keras's object
    defaults: Mapping[str, Any] = field(factory=dict)  # the defaults that differ from Keras's own
    # Returns what a traced update depends on apart from shape and type of its weight.
    kind_of: Callable[[Any, WeightInfo], Hashable] = lambda _settings, _weight: None
    # Returns whether the update of an element depends on other elements of its weight. Of those in `JOINING`
    # of `compiler/compatibility.py`, it always does.
    joins: Callable[[Any, WeightInfo], bool] = lambda _settings, _weight: False
    # The rule under `lazy = true`, which changes only rows with a gradient; None if there is none.
    lazy: type[Optimizer] | None = None


def _traced(_: Any) -> type[Optimizer]:
    return KerasRule


OPTIMIZERS: dict[str, Entry] = {
    "SGD": Entry(keras.optimizers.SGD, lambda its: Momentum if its.momentum else GradientDescent),
    "Momentum": Entry(keras.optimizers.SGD, lambda _: Momentum, {"momentum": 0.9}),
    "Adam": Entry(keras.optimizers.Adam, lambda _: Adam, lazy=LazyAdam),
    "AdamW": Entry(keras.optimizers.AdamW, lambda _: Adam, lazy=LazyAdam),
    "RMSprop": Entry(keras.optimizers.RMSprop, lambda its: CentredRMSprop if its.centered else RMSprop),
    "Adagrad": Entry(keras.optimizers.Adagrad, lambda _: Adagrad),
    "Adadelta": Entry(keras.optimizers.Adadelta, lambda _: Adadelta),
    "Ftrl": Entry(keras.optimizers.Ftrl, lambda _: Ftrl),
    "Adafactor": Entry(keras.optimizers.Adafactor, _traced),
    "Adamax": Entry(keras.optimizers.Adamax, _traced, lazy=LazyAdamax),
    "Lamb": Entry(keras.optimizers.Lamb, _traced),
    "Lion": Entry(keras.optimizers.Lion, _traced),
    "Muon": Entry(
        keras.optimizers.Muon,
        _traced,
        kind_of=lambda settings, weight: uses_adamw(settings, weight.name, weight.shape),
        joins=lambda settings, weight: not uses_adamw(settings, weight.name, weight.shape),
    ),
    "Nadam": Entry(keras.optimizers.Nadam, _traced),
}
