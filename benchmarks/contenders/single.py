"""One hand-written tower on the whole batch: nothing is copied, which is the limit."""

from __future__ import annotations

from benchmarks.contenders import tutorial
from benchmarks.figures import Running
from benchmarks.models import Problem


def start(problem: Problem, towers: int) -> Running:
    """Make the first step of one tower, whose batch has the examples of all towers of the other contenders.

    Args:
        problem: The model and its data.
        towers: The number of towers of the other contenders.
    """
    return tutorial.start(problem, 1, batch=towers * problem.batch)
