"""What a simulation of a step has found: when each op ran, and when each link carried a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from compiler.topology import Device


@frozen
class Bar:
    """An op while it ran.

    Attributes:
        op: The index of the op.
        thread: The number of the thread in its process; -1 for the stream of a GPU.
        ready: When everything was there that it needs.
        start: When it began.
        end: When it was done.
        after: The index of the bar whose end let it begin: the last of its inputs, or what its thread did
            before; None if it waited for nothing.
        over: The index of the hop that brought its last input, or None if that came over no link.
    """

    op: int
    thread: int
    ready: float
    start: float
    end: float
    after: int | None
    over: int | None = None


@frozen
class Hop:
    """A tensor on a link.

    Attributes:
        source: The device that sends it.
        target: The device that receives it.
        tensor: Its name.
        bytes: Its size.
        start: When the link began to carry it.
        end: When it had arrived.
        after: The index of the bar of the op that made it.
    """

    source: Device
    target: Device
    tensor: str
    bytes: int
    start: float
    end: float
    after: int


@frozen
class Simulated:
    """What a simulation has found; times are seconds from the start of the step.

    Attributes:
        bars: The ops, in the order in which they ended.
        hops: The tensors that crossed links.
        seconds: The time from the first op to the end of the last, without what a step costs around them.
        updates: How many updates this is the time of; more than one if clones update by themselves.
    """

    bars: tuple[Bar, ...] = field(repr=False)
    hops: tuple[Hop, ...] = field(repr=False)
    seconds: float
    updates: int = 1


def within(
    bars: Sequence[Bar], hops: Sequence[Hop], first: float, last: float
) -> tuple[tuple[Bar, ...], tuple[Hop, ...]]:
    """Return what happened between two times, counted from the first of them; causes are left out.

    Args:
        bars: The ops, with times in seconds.
        hops: The tensors that were sent, with times in seconds.
        first: The first time, which becomes 0.
        last: The last time.
    """
    kept = tuple(
        Bar(each.op, each.thread, each.ready - first, each.start - first, each.end - first, None)
        for each in bars
        if each.start >= first and each.end <= last
    )
    hopped = tuple(
        Hop(
            each.source,
            each.target,
            each.tensor,
            each.bytes,
            each.start - first,
            each.end - first,
            -1,
        )
        for each in hops
        if each.start >= first and each.end <= last
    )
    return kept, hopped
