"""Rows that are copies of the gradient of a sum are added up without the copies."""

from typing import Any

import numpy as np
import pytest

from tests.support import Training, cloned, largest_difference, spec_of

MODEL = """
  word = input(int32, [6])
  label = input(int32, [])
  scale = weight([], initializer = ones)
  rows = word -> Embedding(40, 4, name = "table")
  pooled = {pooled}
  logits = pooled * scale -> Dense(5)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
MEAN = 'rows -> GlobalAveragePooling1D(name = "pool")'
COPIES, ONCE = "UnsortedSegmentSum", "SparseSegmentSumGrad"


def pooled(how: str, table: str = "sharded(cpu[1..2])", clones: str = "cpu[0]", rule: str = "") -> str:
    """Return the text of a spec that sums the rows of a table, which `table` puts into pieces."""
    place = f'clones -> {clones}\nvariables("table/*") -> {table}\n{rule}'
    return cloned(MODEL.format(pooled=how), 1, devices="cpu = 3, gpu = 1", place=place, seed=5)


@pytest.mark.family(every=4)
@pytest.mark.parametrize(
    ("how", "where", "overrides", "made"),
    [
        # On a CPU that has all of them, in a tower whose gradients are of one batch.
        (MEAN, {}, {}, ONCE),
        (MEAN, {"clones": "gpu[0]"}, {}, COPIES),
        ("ops.sum(rows, axis = 1)", {}, {}, ONCE),
        (MEAN, {"rule": 'ops("pool/*") -> cpu[1]'}, {}, COPIES),
        # Every row, or every element of a row, has a factor of its own, or a weight divides all of them.
        ("ops.sum(rows * ops.expand_dims(ops.cast(ops.arange(6), float32), -1), axis = 1)", {}, {}, COPIES),
        (MEAN, {}, {"update__accumulate": "2"}, COPIES),
        ("ops.sum(rows / (ops.cast(ops.arange(4), float32) + 1), axis = 1)", {}, {}, COPIES),
        (MEAN, {}, {"update__precision": "mixed_float16"}, COPIES),  # they would be rounded at other times
        ("ops.sum(rows / scale, axis = 1)", {}, {}, COPIES),
    ],
)
def test_copies_are_not_made_where_a_tower_would_make_them(
    how: str, where: dict[str, str], overrides: dict[str, str], made: str
) -> None:
    """The variables of two steps are those of a table that is whole."""
    generator = np.random.default_rng(2)
    arrays = {
        "word": generator.integers(0, 40, (16, 6)).astype(np.int32),
        "label": generator.integers(0, 5, 16).astype(np.int32),
    }
    found: list[dict[str, Any]] = []
    for table in ({}, {"table": "cpu[1]"}):
        spec = spec_of(pooled(how, **where, **table), **overrides)
        with Training(spec, arrays, emulate=True) as training:
            ops = training.compiled.graph.get_operations()
            scope = "aggregate/table/embeddings/clone_0/"
            sums = [op.name for op in ops if "SegmentSum" in op.type and op.name.startswith(scope)]
            assert sums == ([] if table else [scope + made])
            training.steps(2)
            found.append(training.values())
    assert largest_difference(*found) < (1e-3 if "update__precision" in overrides else 1e-5)
