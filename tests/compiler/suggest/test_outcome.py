"""The best of several placements."""

import random

import pytest
from attrs import evolve

from compiler.mapping.records import PlacementMap
from compiler.suggest.outcome import WORTH, Goal, NoForecastError, Outcome, best_of
from compiler.time.forecast import forecast_step
from compiler.time.work import StepWork
from tests.compiler.time.steps import CPU, GPU, SECOND_GPU, Machine, op, step
from tests.placement_maps import make_map

MACHINE = Machine(start=1e-4, op_start=1e-5, hand_over=1e-5, speed=1e6, latency=1e-5)


def tangle(seed: int, count: int = 60) -> StepWork:
    """Return a step of ops on a CPU and two GPUs, each of which waits for up to two of those before it."""
    draw = random.Random(seed)  # noqa: S311 not for secrets
    ops = [op(f"{at}={draw.randint(1, 9)}", draw.choice((CPU, GPU, SECOND_GPU))) for at in range(count)]
    arrows = [
        (str(source), str(at))
        for at in range(1, count)
        for source in draw.sample(range(at), min(at, draw.randint(0, 2)))
    ]
    return step(ops, arrows, {str(at): draw.randint(0, 2000) for at in range(count)})


def outcome(work: StepWork | None, placement: PlacementMap | None = None) -> Outcome:
    """Return the outcome of a step, with a map that does not belong to it."""
    return Outcome(work, MACHINE, lambda: placement or make_map(1))


def chain(milliseconds: float) -> StepWork:
    """Return a step of a GPU that takes some time."""
    return step([op("a=1"), op(f"b={milliseconds}", GPU)], [("a", "b")])


def with_memory(needed: int, heaviest: int = 0) -> PlacementMap:
    """Return a map of which each device has 100 bytes, and needs so many."""
    found = make_map(1)
    devices = tuple(
        evolve(each, memory_bytes=needed, memory_limit=100, variable_bytes=heaviest, slot_bytes=0)
        for each in found.devices
    )
    return evolve(found, devices=devices)


def test_the_best_has_the_shortest_step() -> None:
    """The one with the shortest step is found, and its figures are those of a forecast."""
    outcomes = [outcome(tangle(seed)) for seed in range(8)]
    times = [forecast_step(tangle(seed), MACHINE).seconds for seed in range(8)]
    shortest = times.index(min(times))
    found = best_of(outcomes[0], outcomes[1:], Goal.STEP_TIME)
    assert found is outcomes[shortest]
    assert found.figures.seconds == times[shortest]
    assert found.figures is found.figures
    assert [each.value(Goal.STEP_TIME) for each in outcomes] == times


def test_less_than_a_thousandth_does_not_count() -> None:
    """The known one stays, and of several that are as good as the best it is the first."""
    known, nearly, best, bad = (outcome(chain(each)) for each in (20.01, 20.005, 20.0, 25))
    assert best.value(Goal.STEP_TIME) > WORTH * known.value(Goal.STEP_TIME)
    assert best_of(known, [nearly, best, bad], Goal.STEP_TIME) is known
    assert best_of(bad, [nearly, best, known], Goal.STEP_TIME) is nearly


def test_memory_that_is_missing_decides_first() -> None:
    """A placement that lacks less memory is better, however long it takes; all of these are compared."""
    fast, slow, slower = (
        outcome(chain(5), with_memory(300)),
        *(outcome(chain(each), with_memory(150)) for each in (20, 30)),
    )
    assert best_of(fast, [slower, slow], Goal.STEP_TIME) is slow
    assert best_of(slow, [fast, slower], Goal.STEP_TIME) is slow
    assert slow.missing == 50 * len(make_map(1).devices)


def test_bytes_need_no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """If memory or balance is the goal, no step is simulated; the figures of the best have its time."""
    monkeypatch.setattr("compiler.suggest.outcome.forecast_step", None)
    large, small = outcome(chain(5), with_memory(90, 9)), outcome(chain(50), with_memory(80, 8))
    assert best_of(large, [small], Goal.MEMORY) is small
    assert best_of(large, [small], Goal.BALANCE) is small
    monkeypatch.undo()
    assert small.figures.seconds == forecast_step(chain(50), MACHINE).seconds


def test_updates_of_clones_by_themselves_are_compared() -> None:
    """What counts is the time of an update, of which each clone makes some at once."""
    steps = [step([op(f"a={each}"), op(f"b={each}")], [], loops=((0,), (1,))) for each in (10, 13)]
    first, second = (Outcome(each, Machine(cores=2), lambda: make_map(1)) for each in steps)
    assert best_of(second, [first], Goal.STEP_TIME) is first
    assert first.value(Goal.STEP_TIME) < 10e-3


def test_without_costs_there_is_no_time() -> None:
    """The goal cannot be the time then, and the figures lack it."""
    untimed = Outcome(step([op("a=1", CPU)], []), None, lambda: make_map(1))
    with pytest.raises(NoForecastError):
        best_of(untimed, [], Goal.STEP_TIME)
    assert untimed.figures.seconds is None
