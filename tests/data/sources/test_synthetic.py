"""The synthetic source."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from dsl import ir
from tests.support import refusal_of
from tfdeploy.data import Field, StreamOptions, open_split

WANTED = {"x": ("float32", (3, 2)), "y": ("int32", ()), "z": ("uint8", (4,))}


def opened(reader: Any, *transforms: Any, count: int = 500, wanted: Any = None, **more: Any) -> Any:
    """Open synthetic floats, labels of 5 classes and bytes."""
    source = reader.call(
        "synthetic",
        count,
        x=reader.call("feature", "float32", (3, 2)),
        y=reader.call("feature", "int32", classes=5),
        z=reader.call("feature", "uint8", (4,)),
        **more,
    )
    return reader.open(source, *transforms, wanted=wanted or WANTED)


def test_numbers_are_in_their_range(reader: Any) -> None:
    """Floats fill 0 to 1, labels all classes, bytes 0 to 255, and no two examples are alike."""
    stream = opened(reader)
    (batch,) = reader.batches(stream, 1000)
    assert stream.size == 500
    assert batch["x"].shape == (500, 3, 2)
    assert 0 <= batch["x"].min() < 0.01
    assert 0.99 < batch["x"].max() < 1
    assert np.bincount(batch["y"]).tolist() == pytest.approx([100] * 5, abs=40)
    assert (batch["z"].min(), batch["z"].max()) == (0, 255)
    assert len({each.tobytes() for each in batch["x"]}) == 500


def test_the_seed_decides_the_examples(reader: Any) -> None:
    """The same seed gives the same examples in any order and batch; another seed others."""
    (first,) = reader.batches(opened(reader), 1000)
    again = np.concatenate([each["x"] for each in reader.batches(opened(reader), 7)])
    (mixed,) = reader.batches(opened(reader, reader.call("shuffle", 100)), 1000)
    (other,) = reader.batches(opened(reader, seed=1), 1000)
    np.testing.assert_array_equal(first["x"], again)
    assert {each.tobytes() for each in first["x"]} == {each.tobytes() for each in mixed["x"]}
    assert not np.any(first["x"] == other["x"])


def test_the_examples_of_a_seed_stay_the_same(reader: Any) -> None:
    """Also in later versions: results of runs with made-up data can be compared."""
    (batch,) = reader.batches(opened(reader, seed=1, count=3), 3)
    assert (batch["y"].tolist(), batch["z"][0].tolist()) == ([3, 0, 3], [139, 3, 153, 92])
    assert float(batch["x"][2, 0, 0]) == pytest.approx(0.139826, abs=1e-6)


@pytest.mark.family(every=5)
@pytest.mark.parametrize(
    "dtype",
    ["int8", "int16", "uint16", "uint32", "int64", "uint64", "bool", "float16", "bfloat16", "float64"],
)
def test_every_dtype_can_be_drawn(reader: Any, dtype: str) -> None:
    """Each dtype of the language gives numbers that differ."""
    source = reader.call("synthetic", 50, n=reader.call("feature", dtype, (8,)))
    (batch,) = reader.batches(reader.open(source, wanted={"n": (dtype, (8,))}), 50)
    assert batch["n"].dtype.name == dtype
    assert len(np.unique(batch["n"].astype(np.float64))) > (1 if dtype == "bool" else 50)


def test_features_without_sense_are_refused(reader: Any) -> None:
    """Classes of floats, more classes than a dtype has numbers, text, and no feature at all are faults."""
    feature = reader.call
    cases = {
        "`feature` has classes only with whole numbers, not float32": {
            "x": feature("feature", "float32", classes=3)
        },
        "`feature` has more classes than uint8 has numbers": {"x": feature("feature", "uint8", classes=257)},
        "`synthetic` makes numbers, no text": {"x": feature("feature", "string")},
        "`synthetic` names no tensor": {},
    }
    for message, features in cases.items():
        source = reader.call("synthetic", 5, **features)
        found = refusal_of(partial(reader.open, source, wanted={}))
        advice = "write `name = feature(dtype, [shape])`" if "names no tensor" in message else None
        assert (found.message, found.help) == (message, advice)


def test_sizes_of_free_axes_are_random_and_belong_together(reader: Any) -> None:
    """Sizes go from 1 to that of the input, are the same in every batch, and agree for tensors of a size."""
    feature = reader.call
    source = feature(
        "synthetic",
        200,
        words=feature("feature", "int32", (None,), classes=50),
        tags=feature("feature", "float32", (None, 2)),
        label=feature("feature", "int32", classes=2),
    )
    wanted = {"tokens": ("int32", (6,)), "tags": ("float32", (6, 2)), "label": ("int32", ())}
    rename = feature("rename", tokens="words")
    steps = [rename, feature("pad", "tokens", to=6, value=-1), feature("pad", "tags", to=6, value=-1)]
    (batch,) = reader.batches(reader.open(source, *steps, wanted=wanted), 1000)
    sizes = (batch["tokens"] >= 0).sum(1)
    assert np.bincount(sizes).tolist() == pytest.approx([0, *[200 / 6] * 6], abs=25)
    np.testing.assert_array_equal(sizes, (batch["tags"][..., 1] >= 0).sum(1))
    assert len(np.unique(batch["tokens"])) == 51
    again = reader.batches(reader.open(source, *steps, wanted=wanted), 7)
    np.testing.assert_array_equal(np.concatenate([each["tokens"] for each in again]), batch["tokens"])


def test_free_axes_are_as_long_as_forecasts_assume(reader: Any) -> None:
    """If the input has a free axis too, what `assume` says is the largest size."""
    source = reader.call("synthetic", 300, words=reader.call("feature", "int64", (None,)))
    split = ir.Split("train", source, (reader.call("pad", "words"),))
    inputs = [Field("words", "int64", (None,), assumed=(9,))]
    stream = open_split(split, inputs, StreamOptions(reader.base))
    assert max(each["words"].shape[1] for each in reader.batches(stream, 50)) == 9


def test_free_axes_need_pad(reader: Any) -> None:
    """Without it the examples do not fit the input, and the message says what is missing."""
    source = reader.call("synthetic", 5, words=reader.call("feature", "int32", (None,)))
    found = refusal_of(lambda: reader.open(source, wanted={"words": ("int32", (None,))}))
    assert "-> pad(words)" in str(found)
