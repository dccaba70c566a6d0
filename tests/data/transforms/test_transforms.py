"""The transforms that change tensors, and what is checked before anything is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsl.diagnostics import SpecError
from tfdeploy.data.arguments import DTYPES

INT = {"n": ("int32", ())}


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


TAKE_ANOTHER = (
    "take a source that can have it: `csv`, `npz`, `tfrecord`, `synthetic` or `python`, "
    'as in `csv("a.csv", image = "column")`'
)
REFUSED = {
    "unknown tensor": (
        [("scale", "aa", 2)],
        {"b": ("int32", ())},
        ("TFD720", "the examples have no tensor `aa`", None),
    ),
    "unknown old name": (
        [("rename", {"x": "bb"})],
        {"a": ("float32", (6,))},
        ("TFD720", "the examples have no tensor `bb`", None),
    ),
    "scale of whole numbers": (
        [("scale", "b", 2)],
        {"b": ("int32", ())},
        (
            "TFD723",
            "`scale` cannot be applied: `b` is int32, not a floating-point dtype",
            "put `-> cast(b, float32)` before it",
        ),
    ),
    "reshape": (
        [("reshape", "a", (4, 2))],
        {"a": ("float32", (4, 2))},
        (
            "TFD723",
            "`reshape` cannot be applied: `a` is float32[6], 6 numbers, which do not fill [4, 2]",
            None,
        ),
    ),
    "one_hot of floats": (
        [("cast", "b", "float32"), ("one_hot", "b", 3)],
        {"b": ("float32", (3,))},
        (
            "TFD723",
            "`one_hot` cannot be applied: `b` is float32, not a dtype of whole numbers",
            "put `-> cast(b, int32)` before it",
        ),
    ),
    "two of one name": (
        [("rename", {"b": "a"})],
        {"b": ("float32", (6,))},
        ("TFD723", "`rename` cannot be applied: two tensors would bear the same name", None),
    ),
    "missing input": (
        [],
        {"b": ("int32", ()), "image": ("float32", (6,))},
        (
            "TFD721",
            "the examples of `train` lack `image`, an input of the model",
            "rename it: `-> rename(image = a)`; or " + TAKE_ANOTHER,
        ),
    ),
    "missing input, of which several could be a name": (
        [],
        {"image": ("float32", (6,))},
        (
            "TFD721",
            "the examples of `train` lack `image`, an input of the model",
            "rename another, `-> rename(image = OTHER)`, or " + TAKE_ANOTHER,
        ),
    ),
    "shape": (
        [],
        {"a": ("float32", (2, 3))},
        (
            "TFD722",
            "`a` is float32[6], but the model's input is float32[2, 3]",
            "add `-> reshape(a, [2, 3])`, or change the input",
        ),
    ),
    "dtype": (
        [("cast", "b", "int64")],
        {"b": ("int32", ())},
        (
            "TFD722",
            "`b` is int64[], but the model's input is int32[]",
            "add `-> cast(b, int32)`, or change the input",
        ),
    ),
    "classes": (
        [],
        {"b": ("float32", (3,))},
        (
            "TFD722",
            "`b` is float32[], but the model's input is float32[3]",
            "add `-> one_hot(b, 3)`, or change the input",
        ),
    ),
    "neither": (
        [],
        {"a": ("float32", (3,))},
        (
            "TFD722",
            "`a` is float32[6], but the model's input is float32[3]",
            "change the transforms or the input",
        ),
    ),
    "classes of another shape": (
        [],
        {"b": ("float32", (2, 3))},
        (
            "TFD722",
            "`b` is float32[], but the model's input is float32[2, 3]",
            "change the transforms or the input",
        ),
    ),
    "classes of whole numbers": (
        [],
        {"b": ("int32", (3,))},
        (
            "TFD722",
            "`b` is int32[], but the model's input is int32[3]",
            "change the transforms or the input",
        ),
    ),
    "a cast to text": (
        [("cast", "a", "string")],
        INT,
        (
            "TFD724",
            f"`cast` takes one of {', '.join(f'`{each}`' for each in sorted(DTYPES))} as `dtype`",
            None,
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_spec_that_does_not_go_with_its_data_is_refused(reader: Any, table: Any, case: str) -> None:
    """What does not fit is said at once, at the transform or source, before anything is read."""
    flow, wanted, expected = REFUSED[case]
    calls = []
    for name, *given in flow:
        keywords = given.pop() if given and isinstance(given[-1], dict) else {}
        calls.append(reader.call(name, *given, **keywords))
    with pytest.raises(SpecError) as caught:
        table(*calls, **wanted)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.help) == expected
    assert found.span is not None
    assert found.span.text == (
        f"{flow[-1][0]}(...)" if found.code in {"TFD720", "TFD723", "TFD724"} else "csv(...)"
    )


def test_all_inputs_that_do_not_fit_are_said_at_once(table: Any) -> None:
    """One look at the spec gives every input that lacks its data or has the wrong ones."""
    with pytest.raises(SpecError) as caught:
        table(a=("float32", (3,)), b=("uint8", (1,)), c=("float32", ()))
    assert [each.code for each in caught.value.diagnostics] == ["TFD722", "TFD722", "TFD721"]


@pytest.mark.parametrize(
    ("given", "wanted", "bad"),
    [
        (np.array([1, 127, 200], np.uint8), "int8", 2),
        (np.array([2**31 - 1, -(2**31), 2**31]), "int32", 2),
        (np.array([0, -1], np.int32), "uint64", 1),
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
