"""Use Keras objects without creating their variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from compiler.graph.adapters.keras_private import (
    NAMES_GIVEN,
    OPEN_SCOPES,
    UNCREATED_VARIABLES,
    flattened_layers,
    get_global_attribute,
    set_global_attribute,
)


@contextmanager
def stateless() -> Iterator[Any]:
    """Open a Keras stateless scope in which variables have initializers and are never created.

    Keras remembers such variables in the process and would create them when any later scope ends, in whatever
    graph is then the default. They are removed from its list here.
    """
    before = list(get_global_attribute(UNCREATED_VARIABLES, []))
    try:
        with keras.StatelessScope(collect_losses=True, initialize_variables=False) as scope:
            yield scope
    finally:
        set_global_attribute(UNCREATED_VARIABLES, before)


@contextmanager
def own_names() -> Iterator[None]:
    """Let Keras choose names for objects as if nothing had been made in this process before.

    A scope that TensorFlow refuses stays open in Keras, and is closed at the end.
    """
    before = get_global_attribute(NAMES_GIVEN)
    scopes = list(get_global_attribute(OPEN_SCOPES, []))
    set_global_attribute(NAMES_GIVEN, defaultdict(int))
    try:
        yield
    finally:
        set_global_attribute(NAMES_GIVEN, before)
        set_global_attribute(OPEN_SCOPES, scopes)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of a module or class while the context is open."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


_RATES = ("rate", "stddev", "dropout", "recurrent_dropout")


def draw_nothing(layer: keras.Layer) -> None:
    """Let the layers of Keras in a layer, itself among them, drop nothing and add no noise from now on."""
    for each in flattened_layers(layer):
        for name in vars(each).keys() & _RATES if type(each).__module__.startswith("keras.") else ():
            setattr(each, name, 0.0)


# --- names of ops -----------------------------------------------------------------------------------------
#
# Keras opens a layer's scope twice, to build it and to call it. In a plain graph the first scope, which is
# empty, uses the name, and the ops of a layer `query` inside another are called `query_1/...`.
#
# A third of the ops that Keras and TensorFlow's gradients make are constants, and most of these are equal to
# one that is there: axes, parts of shapes, small numbers. Each would cost as much time as another op, only to
# be removed when the tower is simplified.


_EFFECTS = frozenset({"Assert", "EagerPyFunc", "If", "PrintV2", "PyFunc", "StatefulPartitionedCall", "While"})
"""Types of ops that TensorFlow runs in its functions even if nothing takes what they make."""


class NamingGraph(tf.Graph):  # type: ignore[misc]  # TensorFlow has no types
    """A `tf.Graph` in which the names of empty scopes are free again.

    Attributes:
        share_constants: Whether equal constants become one op.
        effects: The ops that may be there for what they do, and not for what they make.
    """

    def __init__(self, *, share_constants: bool) -> None:
        super().__init__()
        self.share_constants = share_constants
        self.effects: list[tf.Operation] = []
        self._constants: dict[bytes, tf.Operation] = {}

    def _create_op_internal(self, op_type: str, inputs: Any, *args: Any, **kwargs: Any) -> tf.Operation:
        """Make an op as `tf.Graph` does, or return the constant that is equal to it."""
        attrs = kwargs.get("attrs") or {}
        if op_type in _EFFECTS:
            self.effects.append(super()._create_op_internal(op_type, inputs, *args, **kwargs))
            return self.effects[-1]
        if op_type != "Const" or not self.share_constants or attrs.keys() != {"value", "dtype"}:
            return super()._create_op_internal(op_type, inputs, *args, **kwargs)
        key = attrs["value"].tensor.SerializeToString(deterministic=True)
        if key not in self._constants:
            self._constants[key] = super()._create_op_internal(op_type, inputs, *args, **kwargs)
        return self._constants[key]

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Open a name scope, as `tf.Graph.name_scope` does."""
        wanted = f"{self._name_stack}/{name}".lstrip("/").lower() if name else ""
        before, ops = self._names_in_use.get(wanted), self.num_operations()
        with super().name_scope(name) as scope:
            yield scope
        if wanted and not wanted.endswith("/") and self.num_operations() == ops:
            self._names_in_use.pop(scope.rstrip("/").lower(), None)
            if before is not None:
                self._names_in_use[wanted] = before
