"""One hand-written tower on the whole batch: nothing is copied, which is the limit."""

from __future__ import annotations

from benchmarks.contenders import tutorial
from benchmarks.figures import Running
from benchmarks.models import Problem


def start(problem: Problem, towers: int) -> Running:
    """Train one tower on as many examples a step as `towers` towers take together."""
    return tutorial.start(problem, 1, batch=towers * problem.batch)
