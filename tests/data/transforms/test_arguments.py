"""The arguments of sources and transforms: what each kind takes, and what is said of all else."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import ir
from dsl.diagnostics import SpecError
from tfdeploy.data.transforms.arguments import MISSING, Arguments, bind


def bound(value: Any) -> Arguments:
    """Return the arguments of a call with one argument."""
    return bind(ir.Call("change", (value,)), a=MISSING)


def reason(caught: pytest.ExceptionInfo[SpecError]) -> str:
    """Return what is said of a call after its name."""
    (found,) = caught.value.diagnostics
    return found.message.removeprefix("`change` ")


TAKEN = [
    ("text", (), ["a", ""]),
    ("texts", (), [("a", "b"), ("a",)]),
    ("integer", (), [0, 7]),
    ("integer", (2,), [2, 3]),
    ("number", (), [0, -1.5]),
    ("flag", (), [True, False]),
    ("shape", (), [(), (1,), (3, 1)]),
    ("free_shape", (), [(), (None, 1), (3,)]),
    ("word", (("b", "a"),), ["a", "b"]),
    ("word", (("none", "a"),), ["none"]),
]


@pytest.mark.parametrize(("kind", "more", "values"), TAKEN)
def test_what_an_argument_takes(kind: str, more: tuple[Any, ...], values: list[Any]) -> None:
    """The value comes back as it is."""
    assert [getattr(bound(value), kind)("a", *more) for value in values] == values


def test_one_value_stands_for_a_list_of_one() -> None:
    """A single name or size needs no brackets; `none` is a word if it is one of the choices."""
    assert bound("b").texts("a") == ("b",)
    assert bound(3).shape("a") == (3,)
    assert bound(None).free_shape("a") == (None,)
    assert bound(None).word("a", ("none", "b")) == "none"


REFUSED: list[tuple[str, tuple[Any, ...], list[Any], str]] = [
    ("text", (), [1, ("b",), None], "a string"),
    ("texts", (), [1, (), ("b", 1), None], "a string or a list of strings"),
    ("integer", (), [-1, True, 1.0, "1"], "a whole number from 0"),
    ("integer", (2,), [1], "a whole number from 2"),
    ("number", (), [True, "1", None], "a number"),
    ("flag", (), [0, 1, None], "true or false"),
    ("shape", (), [0, (2, 0), True, (1.0,), (1, None)], "a list of sizes from 1"),
    ("free_shape", (), [0, (None, 0), (True,), ("2",)], "a list of sizes from 1, or `none`,"),
    ("word", (("c", "b"),), ["a", 1, None], "one of `b`, `c`"),
]


@pytest.mark.parametrize(("kind", "more", "values", "wanted"), REFUSED)
def test_what_an_argument_does_not_take(
    kind: str, more: tuple[Any, ...], values: list[Any], wanted: str
) -> None:
    """What it takes is said; true is no number."""
    for value in values:
        with pytest.raises(SpecError) as caught:
            getattr(bound(value), kind)("a", *more)
        assert reason(caught) == f"takes {wanted} as `a`", value


def test_arguments_are_bound_by_place_and_by_name() -> None:
    """Defaults fill what is not given, and further names are kept apart if they are allowed."""
    call = ir.Call("change", (1,), {"c": 3, "more": 4})
    found = bind(call, others=True, a=MISSING, b=2, c=MISSING)
    assert (found.values, found.others) == ({"a": 1, "b": 2, "c": 3}, {"more": 4})


@pytest.mark.parametrize(
    ("call", "parameters", "said"),
    [
        (ir.Call("change", (1,)), {}, "takes no positional arguments, not 1"),
        (ir.Call("change", (1, 2)), {"a": 0}, "takes 1 positional argument, not 2"),
        (ir.Call("change", (1, 2, 3)), {"a": 0, "b": 0}, "takes 2 positional arguments, not 3"),
        (ir.Call("change", (1,), {"a": 1}), {"a": 0}, "is given `a` twice"),
        (ir.Call("change", (), {"bb": 1}), {"a": 0}, "has no argument `bb`"),
        (ir.Call("change", ()), {"b": 0, "a": MISSING}, "lacks its argument `a`"),
    ],
)
def test_arguments_that_do_not_fit(call: ir.Call, parameters: dict[str, Any], said: str) -> None:
    """Too many, one twice, one that there is not, and one that is missing."""
    with pytest.raises(SpecError) as caught:
        bind(call, **parameters)
    assert reason(caught) == said


def test_a_name_that_is_nearly_one_is_suggested() -> None:
    """The advice names the parameter."""
    with pytest.raises(SpecError) as caught:
        bind(ir.Call("change", (), {"facter": 1}), factor=2)
    (found,) = caught.value.diagnostics
    assert found.help == "there is `factor`"
