"""Which ops of a placement map by kinds have names that are looked for, found without naming all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial

from attrs import define, field, frozen

from compiler.kinds.names.templates import SUFFIX, Template
from compiler.kinds.records.kind_map import KindMap, OpKind
from compiler.kinds.records.sets import Kinds

Matches = Callable[[str], bool]
Member = tuple[int, int]
"""The task of one thing of a kind, and the clone on it."""

_WILD = re.compile(r"[*?\[]")
_SPECIAL = re.compile(r"\[!?\]?[^]]*\]|[*?\[\d_]")
"""What a glob has beside plain text, and the characters of numbers in names."""


@frozen
class Sought:
    """Names that are looked for.

    Attributes:
        matches: Whether a name is one of them.
        begin: What all of them begin with, as far as that is known.
        part: A text without digits that all of them contain, as far as one is known.
    """

    matches: Matches
    begin: str = ""
    part: str = ""

    @classmethod
    def of_glob(cls, glob: str, matches: Matches | None = None) -> Sought:
        """Return the names that match a glob.

        Args:
            glob: The glob.
            matches: Whether a name is one of them, if they may also be in a scope whose name matches.
        """
        begin = _WILD.split(glob, maxsplit=1)[0].rstrip("/")
        part = max(_SPECIAL.split(glob.rstrip("/")), key=len)
        return cls(matches or partial(_is_like, glob), begin, part)


def _is_like(glob: str, name: str) -> bool:
    return fnmatchcase(name, glob)


def sought_members(
    placement: KindMap, sought: Sought, *, inner: bool = True
) -> Iterator[tuple[int, Sequence[Member] | None]]:
    """Yield the kinds that have ops with names that are looked for: the number of each kind, and these ops.

    The ops are None if they are all of the kind.

    Args:
        placement: The map.
        sought: The names.
        inner: Whether names in the tower of an op count, too.
    """
    search = _Search(Kinds(placement), sought)
    scopes = {each.of: f"{each.like.scope}/" for each in placement.clone_kinds} if inner else {}
    for at, kind in enumerate(placement.op_kinds):
        scope = "" if kind.like.clone is None else scopes.get(kind.of, "")
        found = search.members(kind, scope)
        if found is None or found:
            yield at, found


@define
class _Search:
    kinds: Kinds
    sought: Sought
    possible: dict[tuple[Template, int], list[Member]] = field(factory=dict)

    def members(self, kind: OpKind, scope: str) -> list[Member] | None:
        """Return the ops of a kind whose names, with or without a scope, are looked for; None for all."""
        name = self.kinds.template(kind.like.name)
        inside = self.kinds.template(kind.like.name.removeprefix(scope))
        if len(inside.parts) == 1 and isinstance(inside.parts[0], str):
            if self.sought.matches(inside.parts[0]):
                return None
            ways = [name]
        else:
            ways = [name, inside] if scope else [name]
        ways = [each for each in ways if len(each.parts) > 1 and self._may_contain(each)]
        numbers = self.kinds.numbers
        found = {
            member
            for way in ways
            for member in self._beginning_like(way, kind.of)
            if self.sought.matches(way.at(numbers, *member))
        }
        return sorted(found)

    def _may_contain(self, name: Template) -> bool:
        """Whether names may have the text in them that all names have that are looked for."""
        whole = SUFFIX in name.parts  # it may be empty, so that the texts around it are one
        return whole or any(self.sought.part in each for each in name.parts if isinstance(each, str))

    def _beginning_like(self, name: Template, of: int) -> list[Member]:
        """Return the things of a kind whose names may begin like those that are looked for."""
        key = (Template(name.parts[:2]), of)
        found = self.possible.get(key)
        if found is None:
            numbers, begin = self.kinds.numbers, self.sought.begin
            found = self.possible[key] = [
                each for each in self.kinds.members(of) if _may_begin(key[0].at(numbers, *each), begin)
            ]
        return found


def _may_begin(first: str, begin: str) -> bool:
    short = min(len(first), len(begin))
    return first[:short] == begin[:short]
