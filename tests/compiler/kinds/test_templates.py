"""Texts with places for numbers: read, filled in, and written again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.kinds.grid import MapGrid, NotAlikeError
from compiler.kinds.templates import Numbers, Template, escaped, parse

GRID = MapGrid("worker", "gpu", 3, 4, 2, sums=2)
NUMBERS = Numbers(GRID)


@pytest.mark.parametrize(
    ("text", "first", "second", "last"),
    [
        ("fc/kernel", "fc/kernel", "fc/kernel", "fc/kernel"),
        ("clone_{clone}/fc", "clone_0/fc", "clone_1/fc", "clone_11/fc"),
        ("{task}.{place}", "0.0", "0.1", "2.3"),
        ("sum{suffix}", "sum", "sum", "sum_10"),
        ("of_{clone_less}", "of_-1", "of_0", "of_10"),
        ("gpu[{device}] gpu[{device_1}]", "gpu[0] gpu[1]", "gpu[2] gpu[3]", "gpu[6] gpu[7]"),
        ("{clone_0} and {clone_2}", "0 and 2", "0 and 2", "8 and 10"),
        ("{sum_0} and {sum_1}", "0 and 1", "0 and 1", "4 and 5"),
        ("a{{b}}{task}", "a{b}0", "a{b}0", "a{b}2"),
    ],
)
def test_places_are_filled_in(text: str, first: str, second: str, last: str) -> None:
    """With the numbers of clone 0, of clone 1, and of the last clone of three tasks with four of two GPUs."""
    template = parse(text, GRID)
    assert [template.at(NUMBERS, *each) for each in ((0, 0), (0, 1), (2, 3))] == [first, second, last]
    assert template.text() == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{other}", "not known"),
        ("{device_2}", "not known"),
        ("{device_0}", "not known"),
        ("{clone_01}", "not known"),
        ("{sum_2}", "not known"),
        ("{sum_01}", "not known"),
        ("{clone:3}", "with a format"),
        ("{clone!r}", "with a format"),
        ("{clone", "not closed, or not opened"),
        ("clone}", "not closed, or not opened"),
    ],
)
def test_texts_that_are_no_templates(text: str, words: str) -> None:
    """A clone of two devices has no third, two sums have none, and numbers are written as they are."""
    with pytest.raises(NotAlikeError, match=words):
        parse(text, GRID)


@given(text=st.text("ab{}/_0", max_size=8))
def test_a_name_with_braces_stays_as_it_is(text: str) -> None:
    """Escaped, it has no places, and a text without places is one part."""
    template = parse(escaped(text), GRID)
    assert template.at(NUMBERS, 2, 3) == text
    assert len(template.parts) <= 1
    assert template.text() == escaped(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a{clone}", "b{clone}", True),
        ("a{clone}/x", "a{clone}/y", True),
        ("a{clone}/x", "a{clone}/xy", False),
        ("a{clone}", "a{task}", False),
        ("a{sum_0}", "a{sum_1}", False),
        ("a{clone}", "a0", False),
        ("a{clone}", "a{clone}", True),
        ("a{clone}", "a{clone}x", False),
    ],
)
def test_names_in_one_order_for_all_clones(one: str, other: str, *, same: bool) -> None:
    """They differ first in a text, and not in a number or in how long they are."""
    found: tuple[Template, Template] = (parse(one, GRID), parse(other, GRID))
    assert found[0].is_ordered_as(found[1]) == found[1].is_ordered_as(found[0]) == same
