"""What is taken for typical of several rounds of steps."""

from __future__ import annotations

import pytest

from tfdeploy.runtime.calibrate.rounds import Round, cores_used, quartile, typical


@pytest.mark.parametrize(
    ("values", "found"),
    [([5], 5), ([7, 5], 5), ([4, 2, 3], 2), ([1, 4, 3, 2], 1), ([5, 4, 3, 2, 1], 2), (range(9, 0, -1), 3)],
)
def test_the_lower_quartile(values: list[float], found: float) -> None:
    """It is one of the times, below which a quarter of the others are."""
    assert quartile(values) == found


def test_disturbed_rounds_do_not_count() -> None:
    """A step is as fast as in the faster rounds, and uses as many cores as in those that used more."""
    rounds = [Round(1.0, 1.5), Round(2.0, 2.0), Round(3.0, 1.0), Round(9.0, 0.5), Round(1.5, 1.75)]
    assert (typical(rounds), cores_used(rounds)) == (1.5, 1.75)
