"""Which part of a source a stream takes: whole files if that is fair to all workers, else records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from tfdeploy.data.sources.base import FileSource
from tfdeploy.data.transforms.table import Skip, Take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfdeploy.data.options import StreamOptions
    from tfdeploy.data.sources.base import Source
    from tfdeploy.data.transforms.table import Transform


@frozen
class Shard:
    """Every `of`-th example from `index` on."""

    index: int
    of: int


@frozen
class FileShare:
    """Whole files of the source, by number, which hold `count` records."""

    numbers: tuple[int, ...]
    count: int


def share_of(
    source: Source, transforms: Sequence[Transform], options: StreamOptions
) -> FileShare | Shard | None:
    """Return the part that a stream takes of what its source holds; None if it takes everything.

    Whole files are given away if the source has several, if no `take` or `skip` counts examples across
    them, and if every worker gets equally many examples. Every worker comes to the same division by
    itself. Raises RunError if the records of a file cannot be counted.
    """
    if options.shard is None:
        return None
    index, of = options.shard
    counts_examples = any(isinstance(each, Take | Skip) for each in transforms)
    if options.whole_files and isinstance(source, FileSource) and not counts_examples:
        counts = source.counts()
        hands = deal(counts, of)
        if hands is not None:
            return FileShare(hands[index], sum(counts[number] for number in hands[index]))
    return Shard(index, of)


def deal(counts: Sequence[int], of: int) -> tuple[tuple[int, ...], ...] | None:
    """Give files with `counts` of records to `of` workers, the largest first to whoever has least.

    Returns the files of each worker in their order, or None if not all get equally many records that way.
    """
    hands: list[list[int]] = [[] for _ in range(of)]
    totals = [0] * of
    for number in sorted(range(len(counts)), key=lambda number: (-counts[number], number)):
        least = totals.index(min(totals))
        hands[least].append(number)
        totals[least] += counts[number]
    fair = min(totals) == max(totals) > 0
    return tuple(tuple(sorted(hand)) for hand in hands) if fair else None
