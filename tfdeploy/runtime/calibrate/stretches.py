"""Stretches of steps: the machine is not equally fast all the time, so several of them are compared."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


@frozen
class Stretch:
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


def typical(stretches: Iterable[Stretch]) -> float:
    """Return the seconds of a step."""
    return quartile(each.seconds for each in stretches)


def cores_used(stretches: Iterable[Stretch]) -> float:
    """Return the upper quartile of the cores that steps used: while others have a core, steps do not."""
    return -quartile(-each.processors for each in stretches)
