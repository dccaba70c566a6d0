"""Differences of two trainings, relative to what is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfdeploy.runtime.verify.compare import Trajectory, compare

LOSSES = (2.0, 1.0)
VALUES = {
    "global_step": 2,
    "a": [1.0, -4.0],
    "b": [1e-9],
    "a/Adam": [0.5],
    "b/Adam": [0.25],
}


def trajectory(losses: tuple[float, ...] = LOSSES, **changes: Any) -> Trajectory:
    """Return a training with some other values; `__` stands for `/` in a name."""
    values = VALUES | {name.replace("__", "/"): value for name, value in changes.items()}
    return Trajectory(losses, {name: np.asarray(value) for name, value in values.items()})


@pytest.mark.parametrize(
    ("changes", "weights", "slots", "losses", "worst"),
    [
        ({}, 0.0, 0.0, 0.0, "a"),
        ({"a": [1.0, -4.4]}, 0.1, 0.0, 0.0, "a"),
        ({"b": [4e-4]}, 0.1, 0.0, 0.0, "b"),  # as if it were a thousandth as large as the largest weight
        ({"a__Adam": [0.25]}, 0.0, 0.5, 0.0, "a/Adam"),
        ({"b__Adam": [0.5], "a": [1.0, -8.0]}, 1.0, 1.0, 0.0, "a"),
        ({"losses": (2.0, 1.5)}, 0.0, 0.0, 0.5, "loss"),
        ({"losses": (2.0,)}, 0.0, 0.0, float("inf"), "loss"),
        ({"a": [1.0, np.nan]}, float("inf"), 0.0, 0.0, "a"),
        ({"global_step": 3}, float("inf"), 0.0, 0.0, "global_step is 3, not 2"),
    ],
)
def test_each_kind_is_compared_with_the_size_of_its_own(
    changes: dict[str, Any], weights: float, slots: float, losses: float, worst: str
) -> None:
    """Weights, slots and losses each have their largest difference; the worst of all has its name."""
    found = compare(trajectory(**changes), trajectory(), ("a", "b"))
    assert found.weights == pytest.approx(weights, rel=1e-3)
    assert found.slots == pytest.approx(slots)
    assert found.losses == pytest.approx(losses)
    assert found.worst == worst
    assert found.largest == max(found.weights, found.slots, found.losses)


def test_the_evaluation_is_the_worst_if_it_differs_most() -> None:
    """It is compared with the loss of the exported model."""
    found = compare(trajectory(a=[1.0, -4.4]), trajectory(), ("a", "b"))
    worse, better = found.with_evaluated(1.5, 1.0), found.with_evaluated(1.01, 1.0)
    assert (worse.largest, worse.worst) == (0.5, "loss evaluated")
    assert (better.largest, better.worst) == (found.largest, "a")


def test_a_spec_without_weights_or_losses_agrees() -> None:
    """What there is none of does not differ; numbers that are all zero are equal, and nothing else is."""
    none = Trajectory((), {"global_step": np.asarray(2)})
    assert compare(none, none, ()).largest == 0
    zeros = trajectory(a=[0.0, 0.0], b=[0.0])
    assert compare(zeros, zeros, ("a", "b")).largest == 0
    assert compare(trajectory(a=[0.0, 1e-30], b=[0.0]), zeros, ("a", "b")).weights == float("inf")
    assert compare(trajectory(), trajectory(), ()).weights == 0


def test_other_variables_cannot_be_compared() -> None:
    """That would be a mistake of the one who compares."""
    with pytest.raises(ValueError, match="different variables"):
        compare(trajectory(c=[1.0]), trajectory(), ("a", "b"))
