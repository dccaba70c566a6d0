"""How far two trainings differ, relative to the size of what is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve, frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tfdeploy.runtime.verify.fed_graph import Arrays
    from tfdeploy.runtime.verify.references import Trajectory

SMALL = 1e-3
"""Below this part of the largest element of its kind, a variable counts as if it were as large.

What is zero in exact arithmetic (the gradient of a bias before a normalisation, say) is rounding alone, which
no two orders of adding have in common. An optimizer that divides by the size of gradients makes it as large
as any other; `spread` tells of which variables this is so.
"""


@frozen
class Differences:
    """The largest relative differences between two trainings.

    Attributes:
        weights: The largest difference of a weight or a statistic.
        slots: The largest difference of a slot.
        losses: The largest difference of a loss.
        worst: The name of the variable with the largest difference of all.
        evaluated: The difference of the loss of an evaluation from that of the exported model.
        rounded: The variables that differ by no more than rounding moves them, and do not count.
    """

    weights: float
    slots: float
    losses: float
    worst: str = ""
    evaluated: float = 0.0
    rounded: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest of all."""
        return max(self.weights, self.slots, self.losses, self.evaluated)

    def with_evaluated(self, found: float, expected: float) -> Differences:
        """Return the same with an evaluation's loss and that of the exported model compared.

        Args:
            found: The loss of the evaluation.
            expected: The loss of the exported model on the same examples.
        """
        evaluated = _losses((found,), (expected,))
        return evolve(
            self, evaluated=evaluated, worst="loss evaluated" if evaluated > self.largest else self.worst
        )


WITHIN = 2.0
"""How much further than between some references rounding may move a variable."""


def compare(
    found: Trajectory,
    expected: Trajectory,
    weights: Collection[str],
    moved: Mapping[str, float] | None = None,
    tolerance: float = 0.0,
) -> Differences:
    """Return the differences; `weights` names those of the values that are weights and statistics.

    Args:
        found: The training that is verified.
        expected: The training of the reference.
        weights: The names of those values that are weights and statistics; all others are slots.
        moved: By the name of a value how far rounding moves it, as `spread` finds it; None if that is not
            known. A difference beyond the tolerance that is no larger does not count.
        tolerance: The largest relative difference that passes.

    Raises:
        ValueError: The two have different variables.
    """
    if found.values.keys() != expected.values.keys():
        raise ValueError("two trainings of one spec have different variables")
    if found.values["global_step"] != expected.values["global_step"]:
        step = f"global_step is {found.values['global_step']}, not {expected.values['global_step']}"
        return Differences(float("inf"), 0.0, 0.0, step)
    kinds: dict[str, list[str]] = {}
    for name in expected.values:
        if name != "global_step":
            kinds.setdefault("" if name in weights else name.rpartition("/")[2], []).append(name)
    by_name = {
        name: difference
        for names in kinds.values()
        for name, difference in _by_name(found.values, expected.values, names).items()
    }
    rounded = [
        name
        for name, far in (moved or {}).items()
        if by_name.get(name, 0.0) > tolerance
        and _relative(found.values[name], expected.values[name], 1.0) <= WITHIN * far
    ]
    by_name |= dict.fromkeys(rounded, 0.0)
    own = max((each for name, each in by_name.items() if name in weights), default=0.0)
    slots = max((each for name, each in by_name.items() if name not in weights), default=0.0)
    losses = _losses(found.losses, expected.losses)
    worst = max(by_name, key=lambda name: by_name[name], default="")
    worst = "loss" if losses > max(own, slots) else worst
    return Differences(own, slots, losses, worst, rounded=tuple(rounded))


def spread(runs: Sequence[Trajectory]) -> dict[str, float]:
    """Return by the name of a value how far apart it is in several trainings that differ by rounding.

    Args:
        runs: The trainings.
    """
    return {
        name: _largest(np.ptp(np.asarray([each.values[name] for each in runs], np.float64), axis=0))
        for name in runs[0].values
    }


def _by_name(found: Arrays, expected: Arrays, names: list[str]) -> dict[str, float]:
    """Return the difference of each of some variables of one kind."""
    sizes = {name: _largest(expected[name]) for name in names}
    floor = SMALL * max(sizes.values())
    return {name: _relative(found[name], expected[name], max(sizes[name], floor)) for name in names}


def _largest(array: object) -> float:
    return float(np.max(np.abs(np.asarray(array, np.float64)), initial=0.0))


def _relative(found: object, expected: object, size: float) -> float:
    difference = _largest(np.asarray(found, np.float64) - np.asarray(expected, np.float64))
    if not np.isfinite(difference):
        return float("inf")
    return difference / size if size > 0 else (0.0 if difference == 0 else float("inf"))


def _losses(found: tuple[float, ...], expected: tuple[float, ...]) -> float:
    if len(found) != len(expected):
        return float("inf")
    return max(
        (_relative(ours, theirs, abs(theirs)) for ours, theirs in zip(found, expected, strict=True)),
        default=0.0,
    )
