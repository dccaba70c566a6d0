"""The ops that a step runs."""

from __future__ import annotations

from compiler.step.record import Op
from compiler.step.step import Step


def step_ops(step: Step, *, of_chief: bool = True) -> list[Op]:
    """Return the ops that a step runs, in any order.

    Args:
        step: The step.
        of_chief: Whether to include what only the chief runs, if each worker has a graph of its own.
    """
    if of_chief or not step.ends.of_worker:
        return step.run
    return step.needed_for(step.ends.of_worker, step.ends.only_chief)
