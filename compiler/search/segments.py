"""Which stages of a chain are computed again in the backward pass, so that the memory suffices.

A chain is a forward pass that is cut where one tensor passes from a stage to the next. Stages that follow
each other may form a segment, of which only the last result is kept, and which is computed again as a whole
(Chen et al., 2016, arXiv 1604.06174). While the backward pass is in a segment or a stage, all of it is there,
with what is kept of those before it and the gradients of the weights behind it. The choice that takes the
least time is found from the front of the chain to its back: of those that reach a place, only those remain
that no other one beats in both the bytes that are kept and the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from attrs import frozen

MOST = 64
"""The most choices that are followed from a place; if there are more, they are thinned out evenly."""
ROUNDS = 12
"""How often the least limit is halved in on."""


@frozen
class Stage:
    """A part of the forward pass."""

    result: int  # the bytes of the tensor that the next stage takes
    kept: int  # the bytes of what is kept even if the stage is computed again
    inner: int  # the bytes of what is kept only if it is not
    work: int  # the bytes that its own backward pass needs besides
    gradients: int  # the bytes of the gradients of its weights
    seconds: float  # the time that it takes to compute it again
    ending: float = 0.0  # the part of that time which only its result takes, and no segment that ends with it

    @property
    def whole(self) -> int:
        """The bytes of all that gradients need of it."""
        return self.result + self.kept + self.inner


@frozen
class Choice:
    """What is computed again."""

    segments: tuple[tuple[int, int], ...] = ()  # the first stage of each segment, and that after its last one
    seconds: float = 0.0  # the time that they take to compute again
    peak: int = 0  # the most bytes that there are at once in the backward pass


def choice_of(stages: Sequence[Stage], segments: Sequence[tuple[int, int]]) -> Choice:
    """Return a choice with its time and its peak."""
    behind = [*accumulate((each.gradients for each in reversed(stages)), initial=0)][::-1]
    again = dict(segments)
    at, held, peak, seconds = 0, 0, 0, 0.0
    while at < len(stages):
        end = again.get(at, at + 1)
        part = stages[at:end]
        whole = sum(each.whole for each in part)
        peak = max(peak, held + whole + max(each.work for each in part) + behind[end])
        if at in again:
            held += sum(each.kept for each in part) + part[-1].result
            seconds += sum(each.seconds for each in part) - part[-1].ending
        else:
            held += whole
        at = end
    return Choice(tuple(segments), seconds, peak)


@frozen
class _Reached:
    """A way to reach a place in the chain, with the bytes that are kept so far."""

    held: int
    seconds: float
    before: _Reached | None = None
    first: int = 0  # of the segment with which it ends
    again: bool = False


def cheapest(stages: Sequence[Stage], limit: int) -> Choice | None:
    """Return the choice that takes the least time to stay within a limit of bytes; None if there is none."""
    behind = [*accumulate((each.gradients for each in reversed(stages)), initial=0)][::-1]
    reached: list[list[_Reached]] = [[_Reached(0, 0.0)]]
    for end in range(1, len(stages) + 1):
        found: list[_Reached] = []
        whole = kept = work = 0
        seconds = 0.0
        for first in range(end - 1, -1, -1):
            stage = stages[first]
            whole, kept, work = whole + stage.whole, kept + stage.kept, max(work, stage.work)
            seconds += stage.seconds
            room = limit - whole - work - behind[end]
            if room < 0:
                break
            fitting = reached[first][: bisect_right(reached[first], room, key=lambda each: each.held)]
            held, time = kept + stages[end - 1].result, seconds - stages[end - 1].ending
            found += [_Reached(each.held + held, each.seconds + time, each, first, True) for each in fitting]
            if first == end - 1:
                found += [_Reached(each.held + whole, each.seconds, each, first) for each in fitting]
        reached.append(_unbeaten(found))
    if not reached[-1]:
        return None
    way: _Reached | None = reached[-1][-1]  # which keeps the most, and takes the least time
    segments, end = [], len(stages)
    while way is not None and way.before is not None:
        if way.again:
            segments.append((way.first, end))
        way, end = way.before, way.first
    return choice_of(stages, segments[::-1])


def _unbeaten(found: Sequence[_Reached]) -> list[_Reached]:
    """Return the ways that no other beats, those that keep less first."""
    best: list[_Reached] = []
    for each in sorted(found, key=lambda each: (each.held, each.seconds)):
        if not best or each.seconds < best[-1].seconds:
            best.append(each)
    if len(best) > MOST:
        step = (len(best) - 1) / (MOST - 1)
        best = [best[round(at * step)] for at in range(MOST)]
    return best


def least(stages: Sequence[Stage]) -> Choice:
    """Return a choice whose peak is hardly above the lowest that there is, and which takes the least time."""
    best = choice_of(stages, ())
    low, high = 0, best.peak
    for _ in range(ROUNDS):
        middle = (low + high) // 2
        found = cheapest(stages, middle)
        if found is None:
            low = middle
        else:
            best, high = found, found.peak
    return best
