"""What a sweep varies, as options and files say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tfdeploy.sweeping.space import BadSpaceError, Range, Space, read_file, split

if TYPE_CHECKING:
    from pathlib import Path


def test_values_are_parted_by_commas_outside_of_brackets_and_quotes() -> None:
    """So that a call or a list is one value."""
    text = '1,SGD(0.1, momentum = 0.9),[3, 4],"a,b)",none'
    assert split(text) == ["1", "SGD(0.1, momentum = 0.9)", "[3, 4]", '"a,b)"', "none"]


def test_every_combination() -> None:
    """The last path varies fastest."""
    space = Space.of({"a.b": "1,2", "c.d": "x, y"}, {})
    assert space.count == 4
    assert [tuple(each.values()) for each in space.combinations()] == [
        ("1", "x"), ("1", "y"), ("2", "x"), ("2", "y"),
    ]  # fmt: skip


def test_ranges() -> None:
    """A range is of whole numbers if both ends are, and by logarithms if it says so."""
    assert Range.of("16..64") == Range(16, 64, whole=True)
    assert Range.of("1e-4 .. 0.1, log") == Range(1e-4, 0.1, whole=False, log=True)
    assert Range.of("-1.5..2") == Range(-1.5, 2, whole=False)
    assert Range.of("1,2") is None


def test_a_file(tmp_path: Path) -> None:
    """Values of YAML become those of the language."""
    file = tmp_path / "space.yaml"
    file.write_text(
        "update.optimizer.learning_rate: 1e-4..1e-1,log\n"
        "clones.count: [1, 2]\nupdate.average_slots: [true, false]\nupdate.clip: [null, value(1.0)]\n"
    )
    space = Space.of(*read_file(file))
    assert space.grids == {
        "clones.count": ("1", "2"),
        "update.average_slots": ("true", "false"),
        "update.clip": ("none", "value(1.0)"),
    }
    assert list(space.ranges) == ["update.optimizer.learning_rate"]


@pytest.mark.parametrize(
    ("grids", "ranges", "words"),
    [
        ({"a": "1,,2"}, {}, "empty value"),
        ({"a": ""}, {}, "empty value"),
        ({"a": "1,1"}, {}, "same value twice"),
        ({"a": 3}, {}, "neither a list"),
        ({"a": [[1]]}, {}, "neither a list"),
        ({"a": "1,2"}, {"a": "1..2"}, "as well as a range"),
        ({}, {"a": "1,2"}, "no range"),
        ({}, {"a": "2..1"}, "larger one"),
        ({}, {"a": "0..1,log"}, "no logarithms"),
        ({}, {"a": "0..1e999"}, "larger one"),
    ],
)
def test_what_cannot_be_read(grids: dict[str, object], ranges: dict[str, str], words: str) -> None:
    """The message says which path and why."""
    with pytest.raises(BadSpaceError, match=words):
        Space.of(grids, ranges)


@pytest.mark.parametrize("text", ["- 1\n", "a: [", "1: [2]\n", "\0"])
def test_what_is_no_such_file(text: str, tmp_path: Path) -> None:
    """It is said, with its name."""
    file = tmp_path / "space.yaml"
    file.write_text(text)
    with pytest.raises(BadSpaceError, match=r"space\.yaml"):
        read_file(file)
