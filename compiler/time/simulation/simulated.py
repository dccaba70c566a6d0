"""What a simulation of a step has found: when each op ran, and when each link carried a tensor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from attrs import field, frozen

from compiler.topology import Device


@frozen
class Bar:
    """An op while it ran."""

    op: int
    thread: int  # the number of the thread in its process; -1 for the stream of a GPU
    ready: float  # when everything was there that it needs
    start: float
    end: float
    # The index of the bar whose end let it begin: the last of its inputs, or what its thread did before; None
    # if it waited for nothing.
    after: int | None
    # The index of the hop that brought its last input, or None if that came over no link.
    over: int | None = None


@frozen
class Hop:
    """A tensor on a link."""

    source: Device
    target: Device
    tensor: str
    bytes: int
    start: float  # when the link began to carry it
    end: float  # when it had arrived
    after: int  # the index of the bar of the op that made it


@frozen
class Simulated:
    """What a simulation has found; times are seconds from the start of the step."""

    bars: tuple[Bar, ...] = field(repr=False)  # the ops, in the order in which they ended
    hops: tuple[Hop, ...] = field(repr=False)  # the tensors that crossed links
    seconds: float  # the time from the first op to the end of the last, without what a step costs around them
    # How many updates this is the time of, which is not 1 if clones update by themselves. One that is partly
    # in this time counts by that part.
    updates: float = 1.0


def within(
    bars: Sequence[Bar], hops: Sequence[Hop], first: float, last: float
) -> tuple[tuple[Bar, ...], tuple[Hop, ...]]:
    """Return what happened between two times, counted from the first of them; causes are left out.

    Args:
        bars: The ops, with times in seconds. Of one that is partly in between, that part is kept.
        hops: The tensors that were sent, with times in seconds; likewise, with that part of the bytes.
        first: The first time, which becomes 0.
        last: The last time.
    """
    return (
        tuple(_part_of_bar(each, first, last) for each in bars if each.start < last and each.end > first),
        tuple(_part_of_hop(each, first, last) for each in hops if each.start < last and each.end > first),
    )


def _part_of_bar(bar: Bar, first: float, last: float) -> Bar:
    ready, start = (max(first, each) - first for each in (bar.ready, bar.start))
    return Bar(bar.op, bar.thread, ready, start, min(last, bar.end) - first, None)


def _part_of_hop(hop: Hop, first: float, last: float) -> Hop:
    start, end = max(first, hop.start), min(last, hop.end)
    size = round(hop.bytes * (end - start) / (hop.end - hop.start))
    return Hop(hop.source, hop.target, hop.tensor, size, start - first, end - first, -1)


def rounds_between(ends: Sequence[float], first: float, last: float) -> float:
    """Return how many rounds of a clone are between two times, each counted by its part in between.

    Whole rounds would not do: of clones that end theirs at nearly the same times, some would have one more
    than others, only because the time that is looked at begins and ends with those of one of them.

    Args:
        ends: When its rounds ended, in seconds, from the first to the last; at least one.
        first: The first time, not before the first of these.
        last: The last time.
    """
    return _ended_by(ends, last) - _ended_by(ends, first)


def _ended_by(ends: Sequence[float], time: float) -> float:
    """Return how many rounds have ended at a time, with the part of the one that goes on then.

    One that has not ended yet is taken to be as long as the one before.
    """
    whole = bisect_right(ends, time)
    if whole < len(ends):
        length = ends[whole] - ends[whole - 1]
    else:
        length = ends[-1] - ends[-2] if len(ends) > 1 else 0.0
    return whole + min(1.0, (time - ends[whole - 1]) / length if length > 0 else 0.0)
