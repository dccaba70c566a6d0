"""How a process waits until others have done their part: it reads their state, and pauses in between.

A worker waits like this, because no op of TensorFlow may block on another worker. The pauses grow, so that a
long time of waiting costs little, and the end of a short one is noticed soon.
"""

from __future__ import annotations

SHORTEST = 0.0002
"""The first pause, in seconds."""

LONGEST = 0.02
"""The longest pause, in seconds."""

GROWTH = 1.5
"""How much longer each pause is than the one before."""


def noticed(began: float, there: float, reading: float) -> float:
    """Return when a process that waits notices something.

    Args:
        began: When it began to wait, in seconds.
        there: When that which it waits for is there.
        reading: The seconds of reading the state once.
    """
    at, pause = began, SHORTEST
    while at < there:
        at += reading + pause
        pause = min(pause * GROWTH, LONGEST)
    return at + reading
