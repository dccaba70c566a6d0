"""Functions of which several callers, one after the other, want the result for the same argument."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def kept_for_latest(function: Callable[[Argument], Result]) -> Callable[[Argument], Result]:
    """Make a function keep its last result, and return it again for the same object."""
    latest: tuple[Argument, Result] | None = None

    @wraps(function)
    def keeping(argument: Argument) -> Result:
        nonlocal latest
        kept = latest
        if kept is None or kept[0] is not argument:
            kept = latest = (argument, function(argument))
        return kept[1]

    return keeping
