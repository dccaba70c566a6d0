"""Rounds of steps. The machine is not always equally fast, so several rounds are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen


@frozen
class Round:
    """Some steps without a pause.

    Attributes:
        seconds: The median seconds of one.
        processors: The cores that they used, as a mean.
    """

    seconds: float
    processors: float


def timed(step: Callable[[], Any]) -> float:
    """Return the seconds of a step."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def timed_in_turns(
    steps: Sequence[Callable[[], Any]], warm: int, number: int, between: Callable[[], Any] = lambda: None
) -> list[list[float]]:
    """Return the seconds of steps that take turns, so that all meet the machine in the same states.

    Args:
        steps: The steps.
        warm: How often each is made before it is measured.
        number: How often each is measured.
        between: What is done before each.
    """
    found: list[list[float]] = [[] for _ in steps]
    for _ in range(warm + number):
        for step, seconds in zip(steps, found, strict=True):
            between()
            seconds.append(timed(step))
    return [seconds[warm:] for seconds in found]


def plain_config(inner_threads: int) -> Any:
    """Return the options of a session that runs one op at a time, and the ops as they are written.

    Args:
        inner_threads: How many threads may work on one op.
    """
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    config.intra_op_parallelism_threads = inner_threads
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config


def quartile(values: Iterable[float]) -> float:
    """Return the lower quartile of times: what others do meanwhile only makes them longer."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 4]


def typical(rounds: Iterable[Round]) -> float:
    """Return the seconds of a step."""
    return quartile(each.seconds for each in rounds)


def cores_used(rounds: Iterable[Round]) -> float:
    """Return the upper quartile of the cores that steps used: while others have a core, steps do not."""
    return -quartile(-each.processors for each in rounds)
