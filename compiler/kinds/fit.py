"""Which numbers in the names of a graph are those of tasks and clones, found from two graphs with few clones.

Names that differ only in numbers are a family. A number that has other values among more clones is one of a
task or of a clone if the family has it, in both graphs, for each task or clone of a kind: the first one, or
all others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from attrs import define, field, frozen

from compiler.kinds.grid import MapGrid, Spot
from compiler.kinds.templates import CLONE, INDEX, LESS, PLACE, SUFFIX, SUM, TASK

Number: TypeAlias = tuple[int | str, Spot]
"""What a number in a name is, as a part of a template, and the place that it means."""

Parts: TypeAlias = Sequence[str | Number]
"""The texts of which a name consists, and between them the numbers of tasks and clones."""

Table: TypeAlias = Mapping[int, Number]
"""What numbers are, by their values."""

Member: TypeAlias = tuple[str, tuple[int, ...]]
"""A name of a family, and its numbers."""

_PIPE, _TOWER = "input/", "clone_"
_ENDS = ("", "/", ":")
_NO_TABLES: Sequence[Table] = ({}, {})
_NUMBER = re.compile(r"\d+")


@frozen
class Listed:
    """The names in a graph of a few clones.

    Attributes:
        grid: The grid of the clones.
        hosts: The task of each thing by its name, if it is on a device of a task that has clones, else None.
        of_worker: Whether the graph is that of the first worker alone, whose clones are numbered from 0.
        own_pipes: Whether each clone has a pipe of examples of its own.
        by_group: Whether numbers of the clones on a task are wanted too, and not only those of tasks.
    """

    grid: MapGrid
    hosts: Mapping[str, int | None] = field(repr=False)
    of_worker: bool = False
    own_pipes: bool = False
    by_group: bool = True

    def families(self) -> dict[str, list[Member]]:
        """Return the names and their numbers, by what is left of a name without numbers."""
        found: dict[str, list[Member]] = defaultdict(list)
        for name in self.hosts:
            numbers = _NUMBER.findall(name)
            if numbers:
                found[_NUMBER.sub("#", name)].append((name, tuple(map(int, numbers))))
        return found

    def likely(self, texts: Sequence[str], at: int) -> int | None:
        """Return what a number is of by the words before it: a tower, copy, pipe, worker or device."""
        before, of_pipe, job = texts[at], texts[0].startswith(_PIPE), f"/at_{self.grid.job}_"
        if before == _PIPE:
            return CLONE if self.own_pipes else TASK
        if before.endswith((_TOWER, ":")) and texts[at + 1][:1] in _ENDS:
            fed = None if self.own_pipes else PLACE if self.grid.hosts > 1 else CLONE
            return fed if of_pipe else CLONE
        if not texts[0].startswith(_TOWER) and before.endswith(("/worker_", "/copy_")):
            return TASK if before.endswith("/worker_") else CLONE
        if before.endswith(job):
            return TASK
        ours = (
            before.endswith(f"/at_{self.grid.kind}_")
            if self.grid.job is None
            else texts[at - 1].endswith(job)
        )
        return INDEX if ours and before.endswith(f"_{self.grid.kind}_") else None

    def tables(self, likely: int | None) -> list[Table]:
        """Return what numbers can be, by their values."""
        grid, groups = self.grid, range(self.grid.groups if self.by_group else 0)
        places = {at: (PLACE, Spot(0 if self.of_worker else None, at)) for at in groups}
        found: dict[int, Table] = {
            CLONE: {
                at: (CLONE, grid.spot(at))
                if self.by_group
                else (-1 - at % grid.groups, Spot(at // grid.groups))
                for at in range(grid.clones)
            },
            TASK: {at: (TASK, Spot(at)) for at in range(grid.hosts)},
            PLACE: places,
            INDEX: {
                group * grid.members + at: (INDEX + at, Spot(None, group))
                for group in groups
                for at in range(grid.members)
            },
            LESS: {at - 1: (LESS, grid.spot(at)) for at in range(1, grid.clones if self.by_group else 1)},
            SUM: {
                grid.number_of_sum(host, at): (SUM + at if grid.sums > 1 else TASK, Spot(host))
                for host in range(grid.hosts)
                for at in range(grid.sums)
            },
        }
        if self.of_worker:
            found |= {CLONE: places, LESS: {}}
        ordered = sorted(found, key=lambda each: (each != likely, each))
        return [found[each] for each in ordered]


def fit(few: Listed, more: Listed) -> tuple[dict[str, Parts], dict[str, Parts]]:
    """Return the parts of those names of each graph that have numbers of tasks or clones."""
    return _Fit((few, more)).parts()


@define
class _Fit:
    listed: tuple[Listed, Listed]
    found: tuple[dict[str, Parts], dict[str, Parts]] = field(factory=lambda: ({}, {}))

    def parts(self) -> tuple[dict[str, Parts], dict[str, Parts]]:
        few, more = (each.families() for each in self.listed)
        for key, members in more.items():
            texts, pair = key.split("#"), (few.get(key, []), members)
            loose = [at for at in range(len(texts) - 1) if self._may_grow(texts, at, pair)]
            if loose:
                groups = [_alike(each, loose) for each in pair]
                for strict in groups[1]:
                    self._fit(texts, loose, [each[strict] for each in groups])
        return self.found

    def _may_grow(self, texts: Sequence[str], at: int, pair: Sequence[Sequence[Member]]) -> bool:
        """Whether a number has other values among more clones, or is where names have those of clones.

        If both graphs have all tasks, or all clones of a task, their numbers have the same values.
        """
        few, more = ({numbers[at] for _, numbers in members} for members in pair)
        grows = few != more if few else at == len(texts) - 2  # the first of several has no number
        return grows or self.listed[0].likely(texts, at) is not None

    def _fit(self, texts: Sequence[str], loose: Sequence[int], pair: Sequence[list[Member]]) -> None:
        """Find what the numbers are of names that differ in them alone."""
        texts = list(texts)
        bare = self._bare(texts, loose, pair)
        if bare is not None:
            pair = [[*members, bare] for members in pair]
        tables = {at: self._tables(texts, at, pair) for at in loose}
        if bare is not None and tables[loose[0]][0].get(0, ())[:1] == (LESS,):
            texts[loose[0]], tables[loose[0]] = texts[loose[0]][:-1], _suffixes(tables[loose[0]])
            bare = None
        for graph, members in enumerate(pair):
            for name, numbers in members:
                parts: list[str | Number] = [texts[0]]
                for at, number in enumerate(numbers):
                    table = tables.get(at, _NO_TABLES)[graph]
                    parts += [table.get(number, str(number)), texts[at + 1]]
                self.found[graph][name] = parts
            if bare is not None and tables[loose[0]][0]:
                self.found[graph][bare[0]] = [bare[0], ("", tables[loose[0]][graph][0][1])]

    def _bare(
        self, texts: Sequence[str], loose: Sequence[int], pair: Sequence[Sequence[Member]]
    ) -> Member | None:
        """Return the name that both graphs have without the number, which the first of several has."""
        at = loose[0]
        if len(loose) > 1 or not texts[at].endswith("_") or texts[at + 1][:1] not in _ENDS:
            return None
        name, numbers = pair[1][0]
        texts = [*texts[:at], texts[at][:-1] + texts[at + 1], *texts[at + 2 :]]
        others = numbers[:at] + numbers[at + 1 :]
        name = (
            "".join(text + str(number) for text, number in zip(texts[:-1], others, strict=True)) + texts[-1]
        )
        if not all(name in each.hosts for each in self.listed):
            return None
        return name, (*numbers[:at], 0, *numbers[at + 1 :])

    def _tables(self, texts: Sequence[str], at: int, pair: Sequence[Sequence[Member]]) -> Sequence[Table]:
        """Return by its values what a number is in both graphs; nothing if it is not of tasks or clones."""
        values = [{numbers[at] for _, numbers in members} for members in pair]
        likely = self.listed[0].likely(texts, at)
        found = list(zip(*(each.tables(likely) for each in self.listed), strict=True))
        for tables in found if values[0] != values[1] else found[:1]:
            if not all(each <= table.keys() for each, table in zip(values, tables, strict=True)):
                continue
            kinds = {_kind(tables[1][value]) for value in values[1]}
            if all(
                each == {value for value, number in table.items() if _kind(number) in kinds}
                for each, table in zip(values, tables, strict=True)
            ) and self._on_their_tasks(tables, at, pair):
                return tables
        return _NO_TABLES

    def _on_their_tasks(self, tables: Sequence[Table], at: int, pair: Sequence[Sequence[Member]]) -> bool:
        """Whether things on tasks with clones have the numbers of these, if a number is that of a task."""
        return all(
            listed.hosts[name] in (None, numbers[at])
            for listed, table, members in zip(self.listed, tables, pair, strict=True)
            for name, numbers in members
            if table.get(numbers[at], (None,))[0] == TASK
        )


def _kind(number: Number) -> Hashable:
    """Return what a number has in common with those of all tasks and clones for which it stands."""
    what, spot = number
    return what, *(None if each is None else min(each, 1) for each in (spot.host, spot.group))


def _alike(members: Iterable[Member], loose: Collection[int]) -> dict[tuple[int, ...], list[Member]]:
    """Return the names by the numbers that are not of tasks or clones."""
    found: dict[tuple[int, ...], list[Member]] = defaultdict(list)
    for each in members:
        found[tuple(number for at, number in enumerate(each[1]) if at not in loose)].append(each)
    return found


def _suffixes(tables: Sequence[Table]) -> Sequence[Table]:
    """Return what numbers are that come after an underscore, but not for the first clone that is counted."""
    return [{value: (SUFFIX, spot) for value, (_, spot) in each.items()} for each in tables]
