"""Names of things of a few clones as patterns, which give the names of the same things of many clones.

What is of clone 1 on a task stands for the same of all its clones but the first, and what is on task 1 for
the same on all tasks but the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from attrs import define, evolve, field, frozen

from compiler.kinds.deployment.grid import Grid, NotAlikeError, Spot
from compiler.kinds.names.templates import CLONE, INDEX, LESS, PLACE, SUFFIX, SUM, TASK, Numbers, Template
from compiler.kinds.names.tokens import HINT, TOKENS, TOKENS_OF_SUMS, TOKENS_OF_WORKER
from compiler.topology import LOCAL_JOB

Pipes: TypeAlias = Literal["one", "task", "clone"]
"""What has a pipe of examples of its own: all clones together have one, or those of a task, or each."""

_TOWER = re.compile(r"clone_(?P<clone>\d+)(?=/)")
"""The scope of a tower, with which most names begin."""


@frozen
class Counted:
    """A name with a number that counts clones, though nothing in the name says so.

    TensorFlow adds such numbers to names that are there already.

    Attributes:
        before: The text before the number.
        after: The text after it.
        clone: The number of the clone.
        first: The number of the clone whose name comes first, which has the number 0.
        bare: Whether the first name has no number.
    """

    before: str
    after: str
    clone: int
    first: int
    bare: bool

    def name(self, clone: int) -> str:
        """Return the name of the same thing of another clone."""
        number = clone - self.first
        return f"{self.before}{f'_{number}' if number or not self.bare else ''}{self.after}"


@frozen
class _Slot:
    """A number in a name: what it is of, and the place that it means."""

    start: int
    stop: int
    spot: Spot
    what: int


@frozen
class Pattern:
    """A name with places for numbers of tasks and clones.

    Attributes:
        parts: Texts, and between them what is to be written for a task and a clone.
        spot: The place of what has the name.
        counted: The name, if only counting shows its number.
    """

    parts: tuple[str | int, ...]
    spot: Spot
    counted: Counted | None = None

    def at(self, numbers: Numbers, whole: Spot, host: int, group: int) -> str:
        """Return the name for a task and a clone of a grid.

        Args:
            numbers: The numbers of the grid.
            whole: The place of the thing that the name is a part of.
            host: The task for which that thing is repeated.
            group: The clone for which it is repeated.

        Raises:
            NotAlikeError: The name is of a task or a clone that the thing is not of.
        """
        if len(self.parts) == 1 and self.counted is None and isinstance(self.parts[0], str):
            return self.parts[0]
        if self.spot != whole:
            host = host if self.spot.host == whole.host else _first(self.spot.host)
            group = group if self.spot.group == whole.group else _first(self.spot.group)
        if self.counted is not None:
            return self.counted.name(numbers.grid.number(host, group)) + "".join(map(str, self.parts))
        return Template(self.parts).at(numbers, host, group)

    def template(self, grid: Grid, whole: Spot) -> Template:
        """Return the name for all tasks and clones of a kind.

        Args:
            grid: The grid of all clones.
            whole: The place of the thing that the name is a part of.

        Raises:
            NotAlikeError: The name is of a task or a clone that the thing is not of.
        """
        if self.spot == whole:
            return self.partly(grid, None, None)
        return self.partly(
            grid,
            None if self.spot.host == whole.host else _first(self.spot.host),
            None if self.spot.group == whole.group else _first(self.spot.group),
        )

    def partly(self, grid: Grid, host: int | None, group: int | None) -> Template:
        """Return the name for a task, or for a clone on each task, or for all.

        Args:
            grid: The grid of all clones.
            host: The task, or None for all of the kind.
            group: The clone on the task, or None for all of the kind.
        """
        if self.counted is not None:
            return self._counted(self.counted, grid, host, group)
        return _joined(
            [each if isinstance(each, str) else _place(each, grid, host, group) for each in self.parts]
        )

    def _counted(self, counted: Counted, grid: Grid, host: int | None, group: int | None) -> Template:
        rest = counted.after + "".join(map(str, self.parts))
        number = _place(CLONE, grid, host, group)
        if isinstance(number, str):
            return Template((counted.name(int(number)) + "".join(map(str, self.parts)),))
        if counted.first == 0 and not (counted.bare and counted.clone == 0):
            return _joined([f"{counted.before}_", number, rest])
        if counted.first == 0:
            return Template((counted.name(0) + "".join(map(str, self.parts)),))
        if counted.first != 1 or number != CLONE:
            raise NotAlikeError(f"{counted.name(counted.clone)} is counted from another clone")
        return _joined([counted.before, SUFFIX, rest] if counted.bare else [f"{counted.before}_", LESS, rest])


def _place(what: int, grid: Grid, host: int | None, group: int | None) -> str | int:
    """Return what a number in a name is for all tasks or clones that are not given."""
    if what == TASK or what >= SUM:
        of_task = host if what == TASK or host is None else grid.number_of_sum(host, what - SUM)
        return what if of_task is None else str(of_task)
    if what == PLACE or what >= INDEX:
        of_clone = group if what == PLACE or group is None else group * grid.members + what - INDEX
        return what if of_clone is None else str(of_clone)
    if what < 0:
        group = -1 - what
    if group is None:
        if host is None:
            return CLONE
        if host == 0:
            return PLACE
        raise NotAlikeError("a clone of another task is named by its number")
    return -1 - group if host is None else str(grid.number(host, group))


def _joined(parts: list[str | int]) -> Template:
    """Return a template without empty texts, and without texts beside each other."""
    found: list[str | int] = []
    for each in parts:
        if isinstance(each, str) and found and isinstance(found[-1], str):
            found[-1] += each
        elif each != "":
            found.append(each)
    return Template(tuple(found))


def _first(number: int | None) -> int:
    if number:
        raise NotAlikeError("not each of them has one on its own devices")
    return 0


@define
class Patterns:
    """The patterns of the names in the map of a few clones.

    Attributes:
        grid: The grid of that map.
        counted: The names with numbers of clones that only their counting shows.
        pipes: Whether one pipe of examples feeds all clones, or one on each task, or each clone has its own.
        of_worker: Whether the graph is that of the first worker alone, whose clones are numbered from 0.
        by_group: Whether there are places for the numbers of the clones on a task; otherwise these numbers
            stay as they are, and only tasks have places.
    """

    grid: Grid
    counted: Mapping[str, Counted] = field(factory=dict)
    pipes: Pipes = "task"
    of_worker: bool = False
    by_group: bool = True
    _known: dict[str, Pattern] = field(factory=dict)

    def of(self, text: str) -> Pattern:
        """Return the pattern of a name.

        Raises:
            NotAlikeError: The name is of several tasks or clones.
        """
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._parse(text)
        return found

    def by_task(self) -> Patterns:
        """Return the patterns of the same names with places for the numbers of tasks alone."""
        return Patterns(self.grid, self.counted, self.pipes, self.of_worker, by_group=False)

    def count(self, counted: Mapping[str, Counted]) -> None:
        """Take names as those with numbers of clones that only their counting shows."""
        self.counted = counted
        for name in counted:
            self._known.pop(name, None)

    def is_of_all(self, text: str) -> bool:
        """Whether a name has no number of a task or a clone; the errors are those of `of`."""
        hinted = _TOWER.match(text) is not None or HINT.search(text) is not None
        return not hinted or self.of(text).spot == Spot()

    def of_tensor(self, text: str) -> Pattern:
        """Return the pattern of the name of a tensor; the errors are those of `of`."""
        op, _, output = text.rpartition(":")
        if op in self.counted:
            found = self.of(op)
            return evolve(found, parts=(*found.parts, f":{output}"))
        return self.of(text)

    def _parse(self, text: str) -> Pattern:
        counted = self.counted.get(text)
        if counted is not None and not self.by_group:
            raise NotAlikeError(f"{text} is counted among all clones")
        if counted is not None:
            return Pattern((), self.grid.spot(counted.clone), counted)
        slots = list(self._all_slots(text))
        if not slots:
            return Pattern((text,) if text else (), Spot())
        if not self.by_group:
            slots = [_of_task(each) for each in slots if each.what in (TASK, CLONE) or each.what >= SUM]
        host = _only((each.spot.host for each in slots), text)
        group = _only((each.spot.group for each in slots), text)
        spot = Spot(0 if host is None and group is not None else host, group)
        parts: list[str | int] = []
        end = 0
        for slot in slots:
            if _fits(slot.spot, spot):
                parts += [text[end : slot.start], slot.what]
                end = slot.stop
            elif any((slot.spot.host, slot.spot.group)):
                raise NotAlikeError(f"{text} is of several clones")
        parts.append(text[end:])
        return Pattern(tuple(each for each in parts if each != ""), spot)

    def _all_slots(self, text: str) -> Iterator[_Slot]:
        """Yield the numbers in a name."""
        start = 0
        begins = _TOWER.match(text)
        if begins is not None:
            number = int(begins["clone"])
            place = self.grid.spot(number) if not self.of_worker else Spot(0, number)
            yield _slot(begins, "clone", place, PLACE if self.of_worker else CLONE)
            start = begins.end()
        if HINT.search(text, start) is not None:
            tokens = TOKENS_OF_SUMS if self.grid.sums else TOKENS
            tokens = TOKENS_OF_WORKER if self.of_worker else tokens
            yield from (slot for match in tokens.within(text, start) for slot in self._slots(match))

    def _slots(self, match: re.Match[str]) -> Iterator[_Slot]:
        found = match.groupdict()
        if found.get("box"):
            yield _slot(match, "box", Spot(int(found["box"])), TASK)
        elif found.get("sum"):
            host, place = divmod(int(found["sum"]), self.grid.sums)
            yield _slot(match, "sum", Spot(host), SUM + place if self.grid.sums > 1 else TASK)
        elif found["clone"] and self.of_worker:
            yield _slot(match, "clone", Spot(0, int(found["clone"])), PLACE)
        elif name := next((each for each in ("clone", "copy", "pack") if found.get(each)), None):
            yield _slot(match, name, self.grid.spot(int(found[name])), CLONE)
        elif match[0].startswith("input"):
            yield from self._pipe(match)
        elif found["piece"]:
            yield self._fed(match, "piece", None)
        else:
            yield from self._device(
                match, next(each for each in ("of_", "", "at_") if found.get(f"{each}kind"))
            )

    def _pipe(self, match: re.Match[str]) -> Iterator[_Slot]:
        """Yield the number of a pipe, if it is not the first, and that of a clone which it feeds."""
        number = int(match["pipe"] or 0)
        if match["pipe"] and self.pipes != "clone":
            yield _slot(match, "pipe", Spot(number), TASK)
        elif match["pipe"]:
            place = Spot(0, number) if self.of_worker else self.grid.spot(number)
            yield _slot(match, "pipe", place, PLACE if self.of_worker else CLONE)
        if match["fed"] and self.pipes != "clone":
            yield self._fed(match, "fed", number)

    def _fed(self, match: re.Match[str], name: str, host: int | None) -> _Slot:
        """Return the number of a clone among those that one pipe feeds."""
        number = int(match[name])
        if self.pipes == "one":
            return _slot(match, name, self.grid.spot(number), CLONE)
        return _slot(match, name, Spot(host, number), PLACE)

    def _device(self, match: re.Match[str], prefix: str) -> Iterator[_Slot]:
        job, task, index = match[f"{prefix}job"], match[f"{prefix}task"], int(match[f"{prefix}index"])
        if (None if job == LOCAL_JOB else job) != self.grid.job:
            return
        host = int(task or 0)
        if task:
            yield _slot(match, f"{prefix}task", Spot(host), TASK)
        if match[f"{prefix}kind"].lower() == self.grid.kind:
            group, member = divmod(index, self.grid.members)
            yield _slot(match, f"{prefix}index", Spot(host, group), INDEX + member)


def _of_task(slot: _Slot) -> _Slot:
    """Return a number in a name as one of a task, on which the place of a clone stays as it is."""
    what = -1 - (slot.spot.group or 0) if slot.what == CLONE else slot.what
    return evolve(slot, spot=Spot(slot.spot.host), what=what)


def _slot(match: re.Match[str], name: str, spot: Spot, what: int) -> _Slot:
    return _Slot(match.start(name), match.end(name), spot, what)


def _only(numbers: Iterator[int | None], text: str) -> int | None:
    """Return the only number besides 0, or 0, or None if there is none."""
    found: int | None = None
    for each in numbers:
        if found and each and each != found:
            raise NotAlikeError(f"{text} is of several tasks or clones")
        if each is not None:
            found = max(found or 0, each)
    return found


def _fits(slot: Spot, spot: Spot) -> bool:
    """Whether a number changes with the place of the name: it is not that of another, first task or clone."""
    return slot.host in (None, spot.host) and slot.group in (None, spot.group)
