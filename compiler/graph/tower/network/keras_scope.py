"""Use Keras objects without creating their variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from compiler.graph.adapters.keras_private import (
    NAMES_GIVEN,
    OPEN_SCOPES,
    UNCREATED_VARIABLES,
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
