"""A machine, with a few tasks whose ends can be computed in the head, and how tasks share its cores."""

from __future__ import annotations

from math import inf

import pytest

from compiler.time.costs import Cost
from compiler.time.simulation.machines import Active, Machine, Thread, speeds, spread


def task(seconds: float, cores: float = 1.0) -> Active:
    """Return a task of a machine."""
    return Active(None, None, 0.0, seconds, cores, 1.0, None)


def test_tasks_end_in_the_order_of_what_they_have_left() -> None:
    """On two cores three tasks run at two thirds of their speed, two at their full speed."""
    machine = Machine(2, 1.0)
    assert machine.next_end(0.0) == inf
    short, long, late = task(2.0), task(4.0), task(4.0)
    for each in (short, long):
        machine.begin(each, 0.0)
    assert machine.next_end(0.0) == 2.0
    machine.begin(late, 1.0)
    assert machine.next_end(1.0) == 1.0 + 1.0 * 3 / 2
    assert machine.take_ended(2.5) == [short]
    assert machine.tasks == [long, late]
    assert machine.next_end(2.5) == 2.5 + 2.0
    assert machine.take_ended(4.5) == [long]
    assert late.left == pytest.approx(1.0)


def test_tasks_that_end_together_are_taken_together() -> None:
    """If rounding leaves a little of all of them, the one with the least of it ends."""
    machine = Machine(2, 1.0)
    both = [task(1.0), task(1.0)]
    for each in both:
        machine.begin(each, 0.0)
    assert machine.take_ended(machine.next_end(0.0)) == both
    assert machine.next_end(1.0) == inf
    first, second = task(1.0), task(1.5)
    for each in (first, second):
        machine.begin(each, 1.0)
    machine.next_end(1.0)
    assert machine.take_ended(2.0 - 1e-9) == [first]


def active(demand: float = 1.0, crowding: float = 1.0, process: int | None = None, copies: int = 1) -> Active:
    """Return a task that uses some cores, on a thread of a process or on none."""
    thread = None if process is None else Thread(process, 0)
    return Active(None, thread, 0.0, 1.0, demand, crowding, None, copies=copies)


@pytest.mark.parametrize(
    ("tasks", "cores", "wanted"),
    [
        ([active(3.0, crowding=2.0)], 2, [1.0]),  # alone it runs as it was measured
        ([active(1.0, copies=3)], 2, [2 / 3]),
        ([active(), active()], 2, [1.0, 1.0]),
        ([active(2.0), active(2.0)], 2, [0.5, 0.5]),
        ([active(0.0), active(0.0)], 2, [1.0, 1.0]),
        # The other task uses one of three further cores: a third of what crowding can do.
        ([active(crowding=1.6), active()], 4, [1 / 1.2, 1.0]),
        # An op that uses all cores by itself is not crowded by others, but shares with them.
        ([active(2.0, crowding=3.0), active(2.0, crowding=3.0)], 2, [0.5, 0.5]),
        ([active(crowding=1.5), active(5.0, crowding=1.5)], 3, [0.5 / 1.5, 0.5]),
        ([active(0.5, crowding=2.0), active(0.5)], 1, [1 / 1.5, 1.0]),
    ],
)
def test_tasks_share_the_cores(tasks: list[Active], cores: int, wanted: list[float]) -> None:
    """Each gets as much of what it asks for, and is slower by what others do meanwhile."""
    assert speeds(tasks, cores) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("tasks", "awake", "wanted"),
    [
        ([active(process=0), active(process=1)], 1.0, 1.0),
        ([active(process=0), active(process=1)], 1.5, 2 / 3),
        ([active(process=0), active(process=0)], 2.0, 1.0),  # both threads of it have work
        ([active(process=0), active()], 2.0, 2 / 3),  # what is on no thread has none that look
        ([active(process=0), active(process=1, copies=3)], 2.0, 2 / 8),
    ],
)
def test_threads_that_look_for_work_ask_for_cores(tasks: list[Active], awake: float, wanted: float) -> None:
    """Each process uses as many cores as it keeps awake, or as its ops need if these are more."""
    assert speeds(tasks, 2, awake) == pytest.approx([wanted] * len(tasks))


@pytest.mark.parametrize(
    ("cost", "inner", "cores", "wanted"),
    [
        (Cost(0.0, 8.0, 8.0, 2.0), 1, 4, (8.0, 1.0)),
        (Cost(0.0, 8.0, 8.0, 2.0, wide_cores=3.0), 4, 1, (8.0, 1.0)),
        (Cost(0.0, 0.0, 0.0, 0.0, wide_cores=3.0), 4, 4, (0.0, 1.0)),
        (Cost(0.0, 8.0, 8.0, 2.0), 4, 4, (2.0, 4.0)),
        (Cost(0.0, 8.0, 8.0, 2.0), 2, 4, (4.0, 2.0)),
        (Cost(0.0, 8.0, 8.0, 5.0), 2, 4, (6.0, 2.0)),  # four of the eight are shared
        (Cost(0.0, 8.0, 8.0, 5.0), 9, 4, (5.0, 4.0)),
        (Cost(0.0, 8.0, 8.0, 8.0, wide_cores=2.5), 4, 4, (8.0, 2.5)),
        (Cost(0.0, 8.0, 8.0, 9.0, wide_cores=2.5), 2, 4, (9.0, 2.0)),
    ],
)
def test_what_an_op_gains_from_threads(
    cost: Cost, inner: int, cores: int, wanted: tuple[float, float]
) -> None:
    """By Amdahl's law, between the time with one thread and that with one for each core."""
    assert spread(cost, inner, cores) == pytest.approx(wanted)
