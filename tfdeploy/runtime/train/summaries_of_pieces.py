"""Summaries of variables in pieces: one histogram and one norm for each variable.

The graph makes a histogram of each piece, beside no other, so that no task ever has the whole. Limits of
buckets are the same for all histograms of TensorFlow. So counts add up to those of the whole, exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

_PIECE = re.compile(r"/shard_\d+(?=/|$)")
_NORM = "/gradient_norm"


def merged(values: Iterable[Any]) -> list[Any]:
    """Return the values of a summary with those of pieces as one, under the name of the variable.

    Args:
        values: Each a `Summary.Value`. Those of pieces have a part `shard_0`, `shard_1`, ... in their tags.
    """
    found: dict[str, list[Any]] = {}
    for each in values:
        of_piece = each.HasField("histo") or each.tag.endswith(_NORM)
        found.setdefault(_PIECE.sub("", each.tag) if of_piece else each.tag, []).append(each)
    return [_joined(tag, pieces) for tag, pieces in found.items()]


def _joined(tag: str, pieces: Sequence[Any]) -> Any:
    first = pieces[0]
    if first.tag == tag:
        return first
    if first.HasField("histo"):
        return tf.compat.v1.Summary.Value(tag=tag, histo=_histogram([each.histo for each in pieces]))
    norm = math.hypot(*(each.simple_value for each in pieces))
    return tf.compat.v1.Summary.Value(tag=tag, simple_value=norm)


def _histogram(pieces: Sequence[Any]) -> Any:
    """Return the histogram of all elements.

    A bucket begins at the limit before its own. TensorFlow leaves out limits between empty buckets only, so
    that the limit before a bucket with elements is always there.
    """
    counts: dict[float, float] = {}
    for each in pieces:
        for limit, count in zip(each.bucket_limit, each.bucket, strict=True):
            counts[limit] = counts.get(limit, 0.0) + count
    limits = sorted(counts)
    return tf.compat.v1.HistogramProto(
        min=min(each.min for each in pieces),
        max=max(each.max for each in pieces),
        num=sum(each.num for each in pieces),
        sum=math.fsum(each.sum for each in pieces),
        sum_squares=math.fsum(each.sum_squares for each in pieces),
        bucket_limit=limits,
        bucket=[counts[each] for each in limits],
    )
