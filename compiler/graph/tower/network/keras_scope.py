"""Use Keras objects without creating their variables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
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
def own_names(given: defaultdict[str, int] | None = None) -> Iterator[None]:
    """Let Keras choose names for objects as if nothing had been made in this process before.

    Args:
        given: How often each name has been used, which is counted on; None if no name has been used.
    """
    before = get_global_attribute(NAMES_GIVEN)
    set_global_attribute(NAMES_GIVEN, defaultdict(int) if given is None else given)
    try:
        yield
    finally:
        set_global_attribute(NAMES_GIVEN, before)


def names_beside(names: Iterable[str]) -> defaultdict[str, int]:
    """Return what `own_names` takes so that Keras chooses none of these names.

    Keras chooses `reshape`, then `reshape_1`, `reshape_2` and so on.
    """
    given: defaultdict[str, int] = defaultdict(int)
    for name in names:
        stem, _, number = name.rpartition("_")
        given[name] = max(given[name], 1)
        if stem and number.isdecimal():
            given[stem] = max(given[stem], int(number) + 1)
    return given


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of a module or class while the context is open.

    Args:
        owner: The module or class.
        name: The name of the attribute.
        value: Its value.
    """
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
