"""The transforms that change tensors, and what is checked before anything is read."""

from typing import Any

import numpy as np
import pytest


@pytest.fixture
def table(reader: Any) -> Any:
    """Give a function that opens a CSV file of columns a0 to a5 and b, with two rows."""
    (reader.base / "t.csv").write_text("a0,a1,a2,a3,a4,a5,b\n0,1,2,3,4,5,2\n6,7,8,9,10,11,0\n")

    def opened(*transforms: Any, **wanted: Any) -> Any:
        return reader.open(reader.call("csv", "t.csv", a="a*", b="b"), *transforms, wanted=wanted)

    return opened


def test_each_transform_does_what_it_says(reader: Any, table: Any) -> None:
    """Reshape, scale, cast, one_hot and rename in one flow give the arrays that NumPy gives."""
    call = reader.call
    stream = table(
        call("reshape", "a", (2, 3)),
        call("scale", "a", 0.5, -1),
        call("cast", "a", "int32"),
        call("one_hot", "b", 3),
        call("rename", matrix="a", vector="b"),
        matrix=("int32", (2, 3)),
        vector=("float32", (3,)),
    )
    (batch,) = reader.batches(stream, 5)
    expected = np.trunc(np.arange(12).reshape(2, 2, 3) * 0.5 - 1)
    np.testing.assert_array_equal(batch["matrix"], expected)
    np.testing.assert_array_equal(batch["vector"], [[0, 0, 1], [1, 0, 0]])
    assert (batch["matrix"].dtype, batch["vector"].dtype) == (np.int32, np.float32)


def test_the_order_with_shuffle_and_cache_does_not_matter(reader: Any, table: Any) -> None:
    """Transforms before and after a shuffle and a cache give the same examples."""
    call = reader.call
    change = [call("scale", "a", 2), call("reshape", "a", (3, 2))]
    flows = [
        [*change, call("shuffle", 4), call("cache")],
        [call("shuffle", 4), call("cache"), *change],
        [change[0], call("cache"), call("shuffle", 4), change[1]],
    ]
    found = []
    for flow in flows:
        stream = table(*flow, a=("float32", (3, 2)), b=("int32", ()))
        (batch,) = reader.batches(stream, 5)
        found.append(batch["a"][np.argsort(-batch["b"])].tolist())
    assert found == [(np.arange(12).reshape(2, 3, 2) * 2).tolist()] * 3


def test_a_tensor_may_be_swapped_with_another(reader: Any, table: Any) -> None:
    """`rename(a = b, b = a)` exchanges two names."""
    stream = table(reader.call("rename", a="b", b="a"), b=("float32", (6,)), a=("int32", ()))
    (batch,) = reader.batches(stream, 5)
    assert batch["a"].tolist() == [2, 0]
    assert batch["b"].tolist()[0] == [0, 1, 2, 3, 4, 5]


def test_whole_numbers_keep_their_digits_through_a_cast(reader: Any) -> None:
    """A column that is cast to int64 is not squeezed through float32 on the way."""
    (reader.base / "t.csv").write_text("n\n16777217\n")
    stream = reader.open(
        reader.call("csv", "t.csv", n="n"), reader.call("cast", "n", "int64"), wanted={"n": ("int64", ())}
    )
    assert reader.column(stream, "n") == [16777217]


def test_tensors_that_feed_no_input_are_not_read(reader: Any, table: Any) -> None:
    """A tensor that no input takes is left out, with the transforms that it has."""
    stream = table(reader.call("scale", "a", 2), b=("int32", ()))
    assert [set(each) for each in reader.batches(stream, 5)] == [{"b"}]


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("given", "wanted", "bad"),
    [
        (np.array([1, 127, 200], np.uint8), "int8", 2),
        (np.array([2**31 - 1, -(2**31), 2**31]), "int32", 2),
        (np.array([0, -1], np.int32), "uint64", 1),
        (np.array([2**32 - 1, 2**32]), "uint32", 1),
        (np.array([255.9, -0.9, 256], np.float32), "uint8", 2),
        (np.array([2.0**31 - 128, -(2.0**31), 2.0**31], np.float32), "int32", 2),
        (np.array([1, np.nan], np.float64), "int64", 1),
        (np.array([65504, np.inf], np.float16), "int32", 1),
        (np.array([2.5, -1e30, np.nan], np.float32), "float64", None),
        (np.array([7, 0], np.int32), "bool", None),
    ],
)
def test_a_cast_keeps_numbers_or_fails(reader: Any, given: np.ndarray, wanted: str, bad: int | None) -> None:
    """A number that the new dtype does not hold is told with its example; nothing wraps around."""
    call, fields = (reader.call("npz", "a.npz"), reader.call("cast", "n", wanted)), {"n": (wanted, ())}
    np.savez(reader.base / "a.npz", n=given if bad is None else given[:bad])
    expected = (given if bad is None else given[:bad]).astype(wanted)
    np.testing.assert_array_equal(reader.column(reader.open(*call, wanted=fields), "n"), expected)
    if bad is not None:
        np.savez(reader.base / "a.npz", n=given)
        found = reader.fault(*call, wanted=fields)
        place = (
            f"`{reader.base / 'a.npz'}`, example {bad}: `{given[bad].item()}` in `n` is outside {wanted}, "
        )
        assert found.code == "TFD707"
        assert found.message.startswith(place)
