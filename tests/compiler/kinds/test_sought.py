"""Names that are looked for in a map by kinds: only those are written that may be among them."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from compiler.mapping.records import Sought
from tests.placement_maps import make_kinds

GLOBS = {
    "clone_*/fc1/MatMul": ("clone_", "/MatMul"),
    "clone_[!]0-3]/*": ("clone_", "clone"),
    "fc1/kernel": ("fc1/kernel", "/kernel"),
    "*": ("", ""),
}


@pytest.mark.parametrize("glob", GLOBS)
def test_what_all_names_have_that_match_a_glob(glob: str) -> None:
    """A beginning, and a text without digits, brackets or what a number of a clone may stand in."""
    sought = Sought.of_glob(glob)
    assert (sought.begin, sought.part) == GLOBS[glob]


@pytest.mark.parametrize("glob", ["clone_4/*", "*_5/fc1/M*", "*kernel/read", "clone_[3-4]/fc?/*", "*/read_1"])
def test_members_are_those_whose_names_match(glob: str) -> None:
    """All ops with such names are found, in the graph or in their tower, and no others."""
    placement = make_kinds(3, 2)
    names = [each.name for each in placement.expanded().ops]
    inside = [name.partition("/")[2] if name.startswith("clone_") else name for name in names]
    wanted = sum(
        fnmatchcase(name, glob) or fnmatchcase(own, glob) for name, own in zip(names, inside, strict=True)
    )
    found = 0
    for at, members in placement.members_sought(Sought.of_glob(glob)):
        every = placement.kinds[placement.op_kinds[at].of].count
        assert members is None or members
        found += every if members is None else len(members)
    assert found == wanted


def test_only_names_that_may_match_are_written() -> None:
    """Of a name that is known but for its end, those of other clones and of other ops are not looked at."""
    asked: list[str] = []

    def matches(name: str) -> bool:
        asked.append(name)
        return False

    sought = Sought.of_glob("clone_5/fc1/*", matches)
    assert list(make_kinds(3, 2).members_sought(sought)) == []
    written = [each for each in asked if each.startswith("clone_")]
    assert written
    assert all(each.startswith("clone_5/fc1/") for each in written)
