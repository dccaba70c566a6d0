"""Using Keras objects without creating their variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from compiler.graph.adapters.keras_private import (
    NAMES_GIVEN,
    UNCREATED_VARIABLES,
    get_global_attribute,
    set_global_attribute,
)


@contextmanager
def stateless() -> Iterator[Any]:
    """Open a Keras stateless scope whose new variables keep their initializers and are never created.

    Keras remembers such variables in the process and would create them when any later scope ends, in whatever
    graph is then the default; they are forgotten here.
    """
    before = list(get_global_attribute(UNCREATED_VARIABLES, []))
    try:
        with keras.StatelessScope(collect_losses=True, initialize_variables=False) as scope:
            yield scope
    finally:
        set_global_attribute(UNCREATED_VARIABLES, before)


@contextmanager
def own_names() -> Iterator[None]:
    """Let Keras name what has no name of its own as if nothing had been made in this process before."""
    before = get_global_attribute(NAMES_GIVEN)
    set_global_attribute(NAMES_GIVEN, defaultdict(int))
    try:
        yield
    finally:
        set_global_attribute(NAMES_GIVEN, before)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let the attribute `name` of a module or class be `value` meanwhile."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
