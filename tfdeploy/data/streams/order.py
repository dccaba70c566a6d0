"""Which examples a stream reads, and those of about the same length in the same batch.

A stream reads whole files if all shares are equal then, else records. Buckets change only the order: a
pass still has each example once, so that steps, shards and resumed runs are counted as without them.
Batches run on from pass to pass, and one that holds the end of a pass and the beginning of the next has
examples of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from attrs import frozen

from tfdeploy.data.arguments import Field, StreamOptions
from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.base import FileSource, Source
from tfdeploy.data.transforms.changes import Bucket, Transform
from tfdeploy.data.transforms.table import Choice


@frozen
class Shard:
    """A share of single examples."""

    index: int  # the number of the share, which begins with the example of this number
    of: int  # the number of shares


@frozen
class FileShare:
    """A share of whole files."""

    numbers: tuple[int, ...]
    count: int


def share_of(
    source: Source, transforms: Sequence[Transform], options: StreamOptions
) -> FileShare | Shard | None:
    """Return the share of the source that a stream reads; None if it reads everything.

    Whole files are assigned if the source has several, no `take` or `skip` counts examples across them, and
    every worker gets equally many examples. Every worker computes the same division by itself.

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


def bytes_of(fields: Sequence[Field]) -> int:
    """Return the size of an example with these tensors, roughly if it has texts or sizes that vary."""
    return sum(each.numbers * (tf.as_dtype(each.dtype).size or 16) for each in fields)


CHUNK = 256
"""How many records are decoded at once to find their lengths."""


def bucketed(measured: Any, bucket: Bucket, batch: int, open_places: Any) -> Any:
    """Return the records of a pass, those of each group in runs of `batch`.

    The first `open_places` records fill up the batch that the pass before has begun. After them come runs of
    `batch` records of the same group, as soon as a group has as many. What is left at the end follows group
    by group, from the shortest to the longest.

    Args:
        measured: A dataset of pairs of a length, a scalar of int64, and a record.
        open_places: The number of records that the batch lacks in which the pass begins, a scalar of int64.
    """

    def group(number: Any, element: Any) -> Any:
        return tf.where(number < open_places, tf.constant(-1, tf.int64), bucket.group(element[0]))

    def run(_: Any, window: Any) -> Any:
        return window.map(without_autograph(lambda _, element: element[1]))

    def length_of_run(key: Any) -> Any:
        return tf.where(key < 0, tf.maximum(open_places, 1), tf.constant(batch, tf.int64))

    return measured.enumerate().group_by_window(
        without_autograph(group), without_autograph(run), window_size_func=without_autograph(length_of_run)
    )


def measured_one_by_one(dataset: Any, length_of: Callable[[Any], Any]) -> Any:
    """Return pairs of the length of each element and the element."""
    return mapped(dataset, lambda element: (length_of(element), element))


def measured_in_chunks(dataset: Any, lengths_of: Callable[[Any], Any]) -> Any:
    """Return pairs of the length of each element and the element, many of which are decoded at once."""
    return measured_one_by_one(dataset.batch(CHUNK), lengths_of).unbatch()


def mapped(dataset: Any, function: Callable[[Any], Any]) -> Any:
    """Return the dataset of the results of a function of one element, computed in parallel and in order.

    Args:
        function: The function. An element with several parts is a tuple of them.
    """

    def of_element(*parts: Any) -> Any:
        return function(parts[0] if len(parts) == 1 else parts)

    return dataset.map(without_autograph(of_element), num_parallel_calls=tf.data.AUTOTUNE)
