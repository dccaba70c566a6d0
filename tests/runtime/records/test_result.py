"""What a run adds up, and what is said of it."""

from __future__ import annotations

import json

import pytest

from tfdeploy.runtime.records.result import Clock, Result, Scores, Seconds, SplitResult


def test_a_clock_adds_up_steps() -> None:
    """Examples, seconds and waiting are sums over the steps; a step of which it is not known adds none."""
    clock = Clock(compile=1.0, first_step=2.0, evaluate=3.0, checkpoint=4.0)
    assert (clock.waiting, clock.examples_per_second) == (None, None)
    clock.took(10, 0.5)
    assert (clock.waiting, clock.examples_per_second) == (None, 20.0)
    clock.took(10, 0.5, 0.25)
    clock.took(40, 1.0, 0.75)
    clock.took(20, 2.0)
    assert (clock.waiting, clock.examples_per_second) == (0.25, 20.0)
    assert clock.seconds() == Seconds(1.0, 2.0, 4.0, 3.0, 4.0, 1.0)


def test_nobody_waits_longer_than_training_takes() -> None:
    """Two clocks differ a little; the share is at most the whole."""
    clock = Clock()
    clock.took(1, 0.5, 0.75)
    assert (clock.waiting, clock.seconds().data_waiting) == (1.0, 0.5)


@pytest.mark.parametrize(("waited", "known"), [(None, None), (0.0, 0.0)])
def test_waiting_that_is_not_measured_is_not_none_at_all(waited: float | None, known: float | None) -> None:
    """Nothing is claimed if nothing was measured."""
    clock = Clock()
    clock.took(1, 0.5, waited)
    assert (clock.waiting, clock.seconds().data_waiting) == (known, known)


def test_the_file_has_numbers_with_few_digits() -> None:
    """Seconds have three decimal places and speeds one; scores are as they are."""
    result = Result(
        status="finished",
        steps=5,
        loss=0.123456789,
        metrics={},
        test=SplitResult.of(Scores(0.5, 0.25, {"a": 0.123456789}, 7, 1.0)),
        examples_per_second=12.3456,
        seconds=Seconds(1.23456, 2.34567, 3.45678, 4.56789, 5.6789, 6.78912),
        directory="runs/x",
    )
    found = json.loads(result.to_json())
    assert found["loss"] == 0.123456789
    assert found["test"] == {"loss": 0.5, "metrics": {"a": 0.123456789}, "examples": 7}
    assert found["examples_per_second"] == 12.3
    assert list(found["seconds"].values()) == [1.235, 2.346, 3.457, 4.568, 5.679, 6.789]
    assert "\n" not in result.to_json()
    assert result.to_json(indent=1).startswith('{\n "status"')
