"""One hand-written tower on the whole batch: nothing is copied, which is the limit."""

from __future__ import annotations

from benchmarks.contenders import tutorial
from benchmarks.figures import Figures
from benchmarks.models import Problem


def measure(problem: Problem, towers: int, steps: int) -> Figures:
    """Train one tower on as many examples a step as `towers` towers take together."""
    found = tutorial.measure(problem, 1, steps, name="single", batch=towers * problem.batch)
    return Figures(**{**found.to_dict(), "towers": towers})
