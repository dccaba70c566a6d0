"""The order of a pass in which examples of about the same length come into the same batch.

Only the order changes: a pass still has each example once, so that steps, shards and resumed runs are counted
as without it. Batches run on from pass to pass, and one that holds the end of a pass and the beginning of the
next has examples of any length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfdeploy.data.small_graphs import without_autograph

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfdeploy.data.transforms.lengths import Bucket

CHUNK = 256
"""How many records are decoded at once to find their lengths."""


def bucketed(measured: Any, bucket: Bucket, batch: int, open_places: Any) -> Any:
    """Return the records of a pass, those of each group in runs of `batch`.

    The first `open_places` records fill up the batch that the pass before has begun. After them come runs of
    `batch` records of the same group, as soon as a group has as many. What is left at the end follows group
    by group, from the shortest to the longest.

    Args:
        measured: A dataset of pairs of a length, a scalar of int64, and a record.
        bucket: The transform.
        batch: The number of records of a batch.
        open_places: The number of records that the batch lacks in which the pass begins, a scalar of int64.
    """

    def group(number: Any, element: Any) -> Any:
        return tf.where(number < open_places, tf.constant(-1, tf.int64), bucket.group(element[0]))

    def run(key: Any, window: Any) -> Any:
        del key
        return window.map(without_autograph(lambda _, element: element[1]))

    def length_of_run(key: Any) -> Any:
        return tf.where(key < 0, tf.maximum(open_places, 1), tf.constant(batch, tf.int64))

    return measured.enumerate().group_by_window(
        without_autograph(group), without_autograph(run), window_size_func=without_autograph(length_of_run)
    )


def measured_one_by_one(dataset: Any, length_of: Callable[[Any], Any]) -> Any:
    """Return pairs of the length of each element and the element.

    Args:
        dataset: The elements.
        length_of: Returns the length of one element, a scalar of int64.
    """
    return mapped(dataset, lambda element: (length_of(element), element))


def measured_in_chunks(dataset: Any, lengths_of: Callable[[Any], Any]) -> Any:
    """Return pairs of the length of each element and the element, many of which are decoded at once.

    Args:
        dataset: The elements.
        lengths_of: Returns the lengths of a batch of elements, a vector of int64.
    """
    return measured_one_by_one(dataset.batch(CHUNK), lengths_of).unbatch()


def mapped(dataset: Any, function: Callable[[Any], Any]) -> Any:
    """Return the dataset of the results of a function of one element, computed in parallel and in order.

    Args:
        dataset: The elements.
        function: The function. An element with several parts is a tuple of them.
    """

    def of_element(*parts: Any) -> Any:
        return function(parts[0] if len(parts) == 1 else parts)

    return dataset.map(without_autograph(of_element), num_parallel_calls=tf.data.AUTOTUNE)
