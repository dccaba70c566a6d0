"""The share of a source that a stream reads: whole files if all shares are equal then, else records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from tfdeploy.data.sources.base import FileSource
from tfdeploy.data.transforms.table import Choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfdeploy.data.options import StreamOptions
    from tfdeploy.data.sources.base import Source
    from tfdeploy.data.transforms.changes import Transform


@frozen
class Shard:
    """A share of single examples.

    Attributes:
        index: The number of the share, which begins with the example of this number.
        of: The number of shares.
    """

    index: int
    of: int


@frozen
class FileShare:
    """A share of whole files.

    Attributes:
        numbers: The numbers of the files.
        count: The number of records in them.
    """

    numbers: tuple[int, ...]
    count: int


def share_of(
    source: Source, transforms: Sequence[Transform], options: StreamOptions
) -> FileShare | Shard | None:
    """Return the share of the source that a stream reads; None if it reads everything.

    Whole files are assigned if the source has several, no `take` or `skip` counts examples across them, and
    every worker gets equally many examples. Every worker computes the same division by itself.

    Args:
        source: The source.
        transforms: Its transforms, in order.
        options: How the stream is read; its `shard` is the number of this reader and the number of all.

    Raises:
        RunError: If the records of a file cannot be counted.
    """
    if options.shard is None:
        return None
    index, of = options.shard
    counts_examples = any(isinstance(each, Choice) for each in transforms)
    if isinstance(source, FileSource) and not counts_examples:
        counts = source.counts()
        hands = deal(counts, of)
        if hands is not None:
            return FileShare(hands[index], sum(counts[number] for number in hands[index]))
    return Shard(index, of)


def deal(counts: Sequence[int], of: int) -> tuple[tuple[int, ...], ...] | None:
    """Assign files to workers, the largest file first, and each to the worker with the fewest records so far.

    Args:
        counts: The number of records of each file.
        of: The number of workers.

    Returns:
        The numbers of the files of each worker; None if not all workers get equally many records.
    """
    hands: list[list[int]] = [[] for _ in range(of)]
    totals = [0] * of
    for number in sorted(range(len(counts)), key=lambda number: (-counts[number], number)):
        least = totals.index(min(totals))
        hands[least].append(number)
        totals[least] += counts[number]
    fair = min(totals) == max(totals) > 0
    return tuple(tuple(sorted(hand)) for hand in hands) if fair else None
