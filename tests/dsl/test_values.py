"""Quantities and arithmetic."""

import pytest

from dsl.values import CannotCalculateError, Quantity, calculate, quantity


@pytest.mark.parametrize(
    ("value", "unit", "amount"),
    [
        (16, "GiB", 2**34),
        (16, "GB", 16 * 10**9),
        (0.5, "KiB", 512),
        (20, "ms", 0.02),
        (10, "%", 0.1),
        (3, "min", 180.0),
    ],
)
def test_units(value: float, unit: str, amount: float) -> None:
    """Amounts are in bytes, seconds and wholes; bytes are whole numbers where they can be."""
    found = quantity(value, unit)
    assert found.amount == pytest.approx(amount, rel=1e-15)
    assert isinstance(found.amount, int) == (found.dimension == "bytes")


def test_division_without_remainder_stays_whole() -> None:
    """Whole numbers give whole numbers where they can."""
    assert (calculate("/", 64, 2), calculate("/", 1, 16), calculate("/", -7, 2)) == (32, 0.0625, -3.5)
    assert isinstance(calculate("/", 64, 2), int)


def test_quantities_follow_their_dimension() -> None:
    """Sizes add to sizes, scale by numbers, and divide to a number."""
    gib = quantity(1, "GiB")
    assert calculate("+", gib, gib) == Quantity(2**31, "bytes")
    assert calculate("*", 3, gib) == calculate("*", gib, 3) == Quantity(3 * 2**30, "bytes")
    assert calculate("/", gib, quantity(1, "MiB")) == 1024
    assert calculate("*", -1, quantity(1, "s")) == Quantity(-1.0, "seconds")


@pytest.mark.parametrize(
    ("operator", "left", "right", "reason"),
    [
        ("/", 1, 0, "this divides by zero"),
        ("/", quantity(1, "s"), 0, "this divides by zero"),
        ("+", 1, "a", "there is no arithmetic with a string"),
        ("+", True, 1, "there is no arithmetic with `true` or `false`"),
        ("-", (1,), 1, "there is no arithmetic with a list"),
        ("*", None, 1, "there is no arithmetic with `none`"),
        ("+", quantity(1, "s"), quantity(1, "B"), "a duration and a size cannot be joined by `+`"),
        ("*", quantity(1, "s"), quantity(1, "s"), "a duration and a duration cannot be joined by `*`"),
        ("+", quantity(1, "s"), 1, "a duration and a whole number cannot be joined by `+`"),
        ("/", 1, quantity(1, "s"), "a whole number and a duration cannot be joined by `/`"),
        ("*", 2**62, 4, "the result is larger than a whole number can be"),
        ("*", 1e300, 1e300, "the result is larger than a number can be"),
    ],
)
def test_what_cannot_be_calculated(operator: str, left: object, right: object, reason: str) -> None:
    """Each reason for which there is no result is said."""
    with pytest.raises(CannotCalculateError) as caught:
        calculate(operator, left, right)
    assert str(caught.value) == reason
