"""Rounds of steps. The machine is not always equally fast, so several rounds are compared."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


@frozen
class Round:
    """Some steps without a pause.

    Attributes:
        seconds: The median seconds of one.
        processors: The cores that they used, as a mean.
    """

    seconds: float
    processors: float


def quartile(values: Iterable[float]) -> float:
    """Return the lower quartile of times: what others do meanwhile only makes them longer."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 4]


def typical(rounds: Iterable[Round]) -> float:
    """Return the seconds of a step."""
    return quartile(each.seconds for each in rounds)


def cores_used(rounds: Iterable[Round]) -> float:
    """Return the upper quartile of the cores that steps used: while others have a core, steps do not."""
    return -quartile(-each.processors for each in rounds)
