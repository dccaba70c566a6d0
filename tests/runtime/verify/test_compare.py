"""Differences of two trainings, relative to what is compared, and those that rounding alone makes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from tests.support import cloned, spec_of
from tfdeploy.runtime.verify.compare import Trajectory, compare, spread
from tfdeploy.runtime.verify.report import summary
from tfdeploy.runtime.verify.session import Options, Verification

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


NORMALIZED = """
  x = input(float32, [6])
  kind = input(int32, [])
  hidden = x -> Dense(8, name = "before") -> BatchNormalization(name = "norm") -> Activation(relu)
  logits = hidden -> Dense(3, name = "last")
  loss = [kind, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""


@pytest.fixture(scope="module")
def verification() -> Iterator[Verification]:
    """Return a verification of a bias before a normalization, in two of its cases."""
    update = "optimizer = Adam(0.01), batch_norm = synchronized"
    spec = spec_of(cloned(NORMALIZED, batch=8, update=update, seed=1))
    found = Verification(spec, Options(quick=True, synthetic=True))
    cases = [each for each in found.selected.cases if each.clones > 1 and not each.between][:2]
    found.selected = evolve(found.selected, cases=tuple(cases))
    return found


def test_a_bias_before_a_normalization_is_no_difference(verification: Verification) -> None:
    """Its gradient is rounding, which Adam makes as large as any other; the summary names it."""
    outcomes = [*verification.outcomes()]
    rounded = {name for each in outcomes for name in each.differences.rounded}
    assert "before/bias" in rounded
    assert {"before/kernel", "last/kernel", "last/bias", "norm/gamma", "norm/beta"}.isdisjoint(rounded)
    assert all(each.differences.largest <= verification.tolerance for each in outcomes)
    lines = [*summary(verification, outcomes)]
    assert any(line.startswith("moved by rounding alone") and "before/bias" in line for line in lines)
    assert lines[-1] == "all agree"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("before/bias", 0.2),  # further than rounding moves it in five steps
        ("before/bias/Adam", 1e-3),  # a gradient of the size of the others
        ("before/kernel", 1e-3),
        ("last/bias", 1e-4),
        ("norm/moving_variance", 1e-3),
    ],
)
def test_what_is_wrong_is_still_reported(
    name: str, wrong: float, verification: Verification, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the bias itself, in its slot, and in variables whose bound must not be any looser."""
    plain = Verification._trajectory

    def trajectory(self: Verification, case: Any, trial: Any) -> Trajectory:
        course = plain(self, case, trial)
        return evolve(course, values={**course.values, name: course.values[name] + np.float32(wrong)})

    monkeypatch.setattr(Verification, "_trajectory", trajectory)
    outcome = next(verification.outcomes())
    assert outcome.differences.largest > verification.tolerance
    assert outcome.differences.worst == name
    assert name not in outcome.differences.rounded


def test_a_difference_within_the_tolerance_is_shown_as_it_is() -> None:
    """Only one beyond it is compared with what rounding moves, which is how far apart the references are."""
    runs = [
        Trajectory((1.0,), {"global_step": np.array(1), "a": np.array([1.0, at]), "b": np.array([at])})
        for at in (0.0, 0.5, -0.25)
    ]
    moved = spread(runs)
    assert moved == {"global_step": 0.0, "a": 0.75, "b": 0.75}
    other = Trajectory((1.0,), {"global_step": np.array(1), "a": np.array([1.0, 1.4]), "b": np.array([1.6])})
    found = compare(other, runs[0], ["a", "b"], moved, tolerance=0.1)
    assert (found.rounded, found.worst) == (("a",), "b")
    near = compare(other, runs[0], ["a", "b"], moved, tolerance=2.0)
    assert (near.rounded, near.weights > 1.0) == ((), True)
