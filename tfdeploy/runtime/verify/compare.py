"""How far two trainings differ, relative to the size of what is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve, frozen

if TYPE_CHECKING:
    from collections.abc import Collection

    from tfdeploy.runtime.verify.fed_graph import Arrays
    from tfdeploy.runtime.verify.references import Trajectory

SMALL = 1e-3
"""Below this part of the largest element of its kind, a variable counts as if it were as large.

What is zero in exact arithmetic (the gradient of a bias before a normalisation, say) is rounding alone, which
no two orders of adding have in common.
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
    """

    weights: float
    slots: float
    losses: float
    worst: str = ""
    evaluated: float = 0.0

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


def compare(found: Trajectory, expected: Trajectory, weights: Collection[str]) -> Differences:
    """Return the differences; `weights` names those of the values that are weights and statistics.

    Args:
        found: The training that is verified.
        expected: The training of the reference.
        weights: The names of those values that are weights and statistics; all others are slots.

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
    own = max((each for name, each in by_name.items() if name in weights), default=0.0)
    slots = max((each for name, each in by_name.items() if name not in weights), default=0.0)
    losses = _losses(found.losses, expected.losses)
    worst = max(by_name, key=lambda name: by_name[name], default="")
    return Differences(own, slots, losses, "loss" if losses > max(own, slots) else worst)


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
