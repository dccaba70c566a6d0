"""Histograms and norms of pieces, as one for each variable."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdeploy.runtime.train.events import merged

v1 = tf.compat.v1


def _summary(values: dict[str, np.ndarray], norms: dict[str, float]) -> list[Any]:
    """Return the summary that TensorFlow makes."""
    with tf.Graph().as_default(), v1.Session() as session:
        made = [v1.summary.histogram(tag, tf.constant(value)) for tag, value in values.items()]
        made += [v1.summary.scalar(tag, norm) for tag, norm in norms.items()]
        return list(v1.Summary.FromString(session.run(v1.summary.merge(made))).value)


def _filled(histogram: Any) -> list[tuple[float, float, float]]:
    """Return the buckets with elements: where they begin and end, and their numbers of elements."""
    begins = [-np.inf, *histogram.bucket_limit]
    buckets = zip(begins, histogram.bucket_limit, histogram.bucket, strict=False)
    return [each for each in buckets if each[2]]


@pytest.mark.parametrize("edges", [(0, 7, 40, 100), (0, 1, 100), (0, 50, 100)])
def test_the_histogram_of_pieces_is_that_of_the_whole(edges: tuple[int, ...]) -> None:
    """Every bucket, however the rows are cut; and the norm is that of all gradients."""
    whole = np.random.default_rng(1).standard_cauchy((100, 3)).astype(np.float32)
    whole[50:] *= 1e-6
    pieces = [whole[begin:end] for begin, end in pairwise(edges)]
    tags = [f"weights/a/table/shard_{at}" for at in range(len(pieces))]
    norms = {f"a/table/shard_{at}/gradient_norm": np.linalg.norm(each) for at, each in enumerate(pieces)}
    found = merged(_summary({**dict(zip(tags, pieces, strict=True)), "weights/b": whole}, norms))
    (wanted,) = _summary({"weights/a/table": whole}, {})
    assert [each.tag for each in found] == ["weights/a/table", "weights/b", "a/table/gradient_norm"]
    assert _filled(found[0].histo) == _filled(wanted.histo)
    for name in ("min", "max", "num"):
        assert getattr(found[0].histo, name) == getattr(wanted.histo, name)
    assert found[0].histo.sum == pytest.approx(wanted.histo.sum)
    assert found[0].histo.sum_squares == pytest.approx(wanted.histo.sum_squares)
    assert found[1].histo == _summary({"weights/b": whole}, {})[0].histo
    assert found[2].simple_value == pytest.approx(np.linalg.norm(whole), rel=1e-5)
