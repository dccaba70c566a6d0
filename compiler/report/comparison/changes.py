"""Describe many changes in few lines: by scope, with equal clones and devices of one kind combined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from attrs import frozen

from compiler.figures import count, gathered, ranges
from compiler.report import refs
from compiler.report.comparison.compare import Change
from compiler.report.scopes import Part, Scope, build, cut
from compiler.report.table import shorten

LINES = 20
"""The most lines about ops."""

WIDEST = 44
"""Names of scopes are cut to this many characters."""

CLONES = "clone_*"


@frozen
class Line:
    """Ops of one scope that moved from devices of a kind to devices of a kind.

    Attributes:
        scope: The name of the scope.
        ops: The number of ops.
        before: The names of the devices before.
        after: The names of the devices after.
    """

    scope: str
    ops: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def way(self) -> str:
        """The devices before and after, in words."""
        if not self.after:
            return f"was on {refs.label(self.before)}"
        if not self.before:
            return f"on {refs.label(self.after)}"
        if len(self.before) > 1 and set(self.before) == set(self.after):
            return f"among {refs.label(self.before)}"
        return f"{refs.label(self.before)} -> {refs.label(self.after)}"


@frozen
class Way:
    """What the changes that are counted together have in common.

    Attributes:
        clone: The number of the clone of the ops, or None for ops of no clone.
        before: The names of their devices before.
        after: The names of their devices after.
    """

    clone: int | None
    before: tuple[str, ...]
    after: tuple[str, ...]

    @cached_property
    def family(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """The kinds of devices before and after; ways of one family share a line."""
        before, after = (
            tuple(dict.fromkeys(refs.parse(each).job_kind for each in side))
            for side in (self.before, self.after)
        )
        return (before, after)


def lines_of(changes: Sequence[Change], limit: int = LINES) -> list[Line]:
    """Return at most `limit` lines that describe the changes of all ops, as far as that is possible.

    Args:
        changes: The ops that differ, with their devices before and after.
        limit: The number of lines that is not exceeded if scopes can be combined.
    """
    ways: dict[str, Way] = {}

    def key(change: Change) -> str:
        name = f"{change.clone} {change.before} {change.after}"
        ways.setdefault(name, Way(change.clone, change.before, change.after))
        return name

    root = build(changes, lambda each: each.name if each.clone is None else f"{CLONES}/{each.inner}", key)

    def is_mixed(scope: Scope) -> bool:
        """Whether ops of one clone moved in different ways, which opening the scope may separate."""
        if not scope.path:
            return True
        if not all(ways[each].before and ways[each].after for each in scope.counts):
            return False  # the scope is enough for ops that only one map has
        starts = Counter((ways[each].clone, ways[each].family) for each in scope.counts)
        return max(starts.values(), default=0) > 1 or len({way[1] for way in starts}) > 1

    def cost(part: Part) -> int:
        return len({ways[each].family for each in part.counts})

    parts = cut(root, limit, is_mixed, cost)
    return [line for part in _tops(parts) for line in _part_lines(part, ways)]


def change_lines(changes: Sequence[Change], limit: int = LINES) -> list[str]:
    """Return the lines as text, in columns: scope, number of ops, devices before and after.

    Args:
        changes: The ops that differ, with their devices before and after.
        limit: The number of lines that is not exceeded if scopes can be combined.
    """
    rows = [(shorten(line.scope, WIDEST), count(line.ops), line.way) for line in lines_of(changes, limit)]
    widths = [max(len(row[at]) for row in rows) for at in (0, 1)]
    return [f"  {scope:{widths[0]}}  {number:>{widths[1]}}  {way}" for scope, number, way in rows]


def _tops(parts: Iterable[Part]) -> Iterator[Part]:
    """Name a part that is the whole tree by the scope that holds all of it."""
    for part in parts:
        scope = part.scope
        while not part.own and part.members is None and not scope.own and len(scope.children) == 1:
            (scope,) = scope.children.values()
        yield part if scope is part.scope else Part(scope)


def _part_lines(part: Part, ways: dict[str, Way]) -> Iterator[Line]:
    counted = ((ways[name], number) for name, number in part.counts.items())
    families = gathered((way.family, (way, number)) for way, number in counted)
    for members in families.values():
        clones = [way.clone for way, _ in members if way.clone is not None]
        path = part.scope.path.replace(CLONES, f"clone_{ranges(clones)}", 1) if clones else part.scope.path
        yield Line(
            scope=_label(part, path),
            ops=sum(number for _, number in members),
            before=tuple(dict.fromkeys(ref for way, _ in members for ref in way.before)),
            after=tuple(dict.fromkeys(ref for way, _ in members for ref in way.after)),
        )


def _label(part: Part, path: str) -> str:
    if not path:
        return "(no scope)" if part.own else "(everything)"
    return path if part.members is not None else f"{path}/"
