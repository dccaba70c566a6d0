"""A machine, with a few tasks whose ends can be computed in the head."""

from __future__ import annotations

from math import inf

import pytest

from compiler.time.simulation.machines import Machine
from compiler.time.simulation.tasks import Active


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
