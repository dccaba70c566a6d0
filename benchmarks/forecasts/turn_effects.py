"""How long a step of each layout takes, from turns in which the machine was not equally fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

QUIET = 0.1
"""The part of the machine below which the work of others does not matter. The clocks of the system tick a
hundred times in a second, so a smaller part of a tenth of a second cannot be told from none."""

LEVEL = 0.25
"""The part of all turns of all layouts that were faster than what counts. It is the same for the steps of a
calibration, so that both are of a machine that is about equally fast."""

ROUNDS = 30
"""How often medians are taken out of both sides, which is more than they need to settle."""


@frozen
class Chunk:
    """Some steps of a layout without a pause: its turn.

    Attributes:
        seconds: The median seconds of a step.
        processor: The processor time of all processes of the layout for each step, in seconds.
        others: The part of the processors that other work had meanwhile, from 0 to 1.
    """

    seconds: float
    processor: float
    others: float


@frozen
class Step:
    """What was measured of a layout.

    Attributes:
        seconds: The seconds of a step.
        noise: How far the odd and the even turns are apart, as a part of the seconds.
    """

    seconds: float
    noise: float


def measured_steps(layouts: Sequence[Sequence[Chunk]]) -> list[Step]:
    """Return how long a step of each layout took.

    A machine that others use is faster in one turn than in another, for all layouts alike. The logarithm of
    the seconds of a step is therefore taken as the sum of a part of the layout and one of the turn, which
    are found by median polish (J. W. Tukey, Exploratory Data Analysis, 1977, chapter 11). What other work
    has disturbed does not count, unless all turns of a layout were.

    Args:
        layouts: The chunks of each layout, as many for each, one from each turn.
    """
    times = np.array([_without_disturbed(each) for each in layouts]).T
    parts = _polish(times)
    odd, even = (_middle(_polish(times[start::2])) for start in (0, 1))
    seconds = np.exp(parts + np.nanquantile(times - parts, LEVEL, method="inverted_cdf"))
    return [
        Step(float(each), float(np.nan_to_num(abs(np.expm1(first - second)))))
        for each, first, second in zip(seconds, odd, even, strict=True)
    ]


def _without_disturbed(chunks: Sequence[Chunk]) -> list[float]:
    """Return the logarithms of the seconds, without those of chunks that other work has disturbed."""
    least = sorted(each.others for each in chunks)[(len(chunks) - 1) // 2]
    most = QUIET if any(each.others < QUIET for each in chunks) else least
    return [float(np.log(each.seconds)) if each.others <= most else np.nan for each in chunks]


def _polish(times: Any) -> Any:
    """Return the part of each layout, which is not a number if none of its turns counts.

    Args:
        times: The logarithms of the seconds by turn and layout, or not a number for what does not count.
    """
    left = np.array(times)
    turns, parts = (np.where(np.isfinite(left).any(axis=axis), 0.0, np.nan) for axis in (1, 0))
    for _ in range(ROUNDS):
        for effects, axis in ((turns, 1), (parts, 0)):
            known = np.isfinite(effects)
            effects[known] += np.nanmedian(left.compress(known, axis=1 - axis), axis=axis)
            left = times - turns[:, None] - parts
    return parts


def _middle(parts: Any) -> Any:
    """Return the parts of the layouts without what they have in common, which is that of the turns."""
    known = parts[np.isfinite(parts)]
    return parts - np.median(known) if known.size else parts
