"""Variables that rounding alone moves are no difference, and what is wrong in them and in others is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from tests.support import spec_of
from tfdeploy.runtime.verify.compare import Trajectory, compare, spread
from tfdeploy.runtime.verify.report import summary
from tfdeploy.runtime.verify.session import Options, Verification

NORMALIZED = """
tfdeploy = 1
model "normalized" {
  x = input(float32, [6])
  kind = input(int32, [])
  hidden = x -> Dense(8, name = "before") -> BatchNormalization(name = "norm") -> Activation(relu)
  logits = hidden -> Dense(3, name = "last")
  loss = [kind, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices { cpu = 2 }
clones { count = 2, batch = 8 }
update { optimizer = Adam(0.01), batch_norm = synchronized }
train { seed = 1 }
"""


@pytest.fixture(scope="module")
def verification() -> Iterator[Verification]:
    """Return a verification of a bias before a normalization, in two of its cases."""
    found = Verification(spec_of(NORMALIZED), Options(quick=True, synthetic=True))
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
