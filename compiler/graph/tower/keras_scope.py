"""Using Keras objects without creating their variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
from keras.src.backend.common import global_state

_NAMES = "object_name_uids"  # how often Keras has given each name to a layer, in the whole process
_PENDING = "uninitialized_variables"  # what Keras would create at the end of the next stateless scope


@contextmanager
def stateless() -> Iterator[Any]:
    """Open a Keras stateless scope whose new variables keep their initializers and are never created.

    Keras remembers such variables in the process and would create them when any later scope ends, in whatever
    graph is then the default; they are forgotten here.
    """
    before = list(global_state.get_global_attribute(_PENDING, []))
    try:
        with keras.StatelessScope(collect_losses=True, initialize_variables=False) as scope:
            yield scope
    finally:
        global_state.set_global_attribute(_PENDING, before)


@contextmanager
def own_names() -> Iterator[None]:
    """Let Keras name what has no name of its own as if nothing had been made in this process before."""
    before = global_state.get_global_attribute(_NAMES)
    global_state.set_global_attribute(_NAMES, defaultdict(int))
    try:
        yield
    finally:
        global_state.set_global_attribute(_NAMES, before)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let the attribute `name` of a module or class be `value` meanwhile."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
