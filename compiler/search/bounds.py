"""A max-load below which no placement is."""

from __future__ import annotations

import numpy as np

from compiler.search.problem import Problem, join_inseparable, merge, unordered


def lower_bound(problem: Problem, best: float) -> float:
    """Return a bound from below for the max-load of every placement.

    A placement better than the best known one has together what `join_inseparable` joins. So its max-load is
    at least that of each joined group on the device that is best for it, and at least what remains if groups
    could be cut at will and nothing had to be moved.
    """
    joined = merge(unordered(problem), join_inseparable(problem, best))
    alone = joined.host_seconds if joined.host else np.full(joined.size, np.inf)
    best_alone = np.where(joined.supported, np.minimum(joined.seconds, alone), alone)
    return min(best, max(float(best_alone.max(initial=0.0)), _spread(joined)))


def _spread(problem: Problem) -> float:
    """Return the max-load if groups could be cut at will.

    The host takes those that it is best at, relative to an accelerator.
    """
    seconds = np.where(problem.supported, problem.seconds, 0.0)
    rest = float(seconds.sum())
    if not problem.host:
        return rest / problem.accelerators
    load = float(problem.host_seconds[~problem.supported].sum())
    movable = np.nonzero(problem.supported & (seconds > 0))[0]
    ratio = problem.host_seconds[movable] / seconds[movable]
    for group in movable[np.argsort(ratio, kind="stable")]:
        here, there = float(seconds[group]), float(problem.host_seconds[group])
        # The part of the group that makes both sides equal: load + part * there == (rest - part * here) /
        # accelerators.
        part = (rest / problem.accelerators - load) / (there + here / problem.accelerators)
        if part < 1.0:
            return max(load, (rest - max(part, 0.0) * here) / problem.accelerators)
        load, rest = load + there, rest - here
    return max(load, rest / problem.accelerators)
