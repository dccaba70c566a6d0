"""Names of things of a few clones as patterns, which give the names of the same things of many clones.

What is of clone 1 on a task stands for the same of all its clones but the first, and what is on task 1 for
the same on all tasks but the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from attrs import define, field, frozen

from compiler.kinds.fit import Listed, Number, Parts, fit
from compiler.kinds.grid import MapGrid, NotAlikeError, Spot
from compiler.kinds.templates import CLONE, INDEX, PLACE, SUM, TASK, Numbers, Template
from compiler.topology import LOCAL_JOB


@frozen
class Pattern:
    """A name with places for numbers of tasks and clones.

    Attributes:
        parts: Texts, and between them what is to be written for a task and a clone.
        spot: The place of what has the name.
    """

    parts: tuple[str | int, ...]
    spot: Spot

    def at(self, numbers: Numbers, whole: Spot, host: int, group: int) -> str:
        """Return the name for a task and a clone of a grid.

        Raises:
            NotAlikeError: The name is of a task or a clone that the thing is not of.
        """
        if len(self.parts) == 1 and isinstance(self.parts[0], str):
            return self.parts[0]
        if self.spot != whole:
            host = host if self.spot.host == whole.host else _first(self.spot.host)
            group = group if self.spot.group == whole.group else _first(self.spot.group)
        return Template(self.parts).at(numbers, host, group)

    def template(self, grid: MapGrid, whole: Spot) -> Template:
        """Return the name for all tasks and clones of a kind.

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

    def partly(self, grid: MapGrid, host: int | None, group: int | None) -> Template:
        """Return the name for a task, or for a clone on each task; None stands for all of the kind."""
        return _joined(
            [each if isinstance(each, str) else _place(each, grid, host, group) for each in self.parts]
        )


def _place(what: int, grid: MapGrid, host: int | None, group: int | None) -> str | int:
    """Return what a number in a name is for all tasks or clones that are not given."""
    of_task, of_clone = what == TASK or what >= SUM or what < 0, what == PLACE or INDEX <= what < SUM
    if (host is not None or of_clone) and (group is not None or of_task):
        return Template((what,)).at(Numbers(grid), host or 0, group or 0)
    if of_task or of_clone or host is group is None:
        return what
    if what == CLONE and host is None and group is not None:
        return -1 - group
    if what == CLONE and host == 0:
        return PLACE
    raise NotAlikeError("a clone of another task is named by its number")


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
    """The patterns of the names in the graph of a few clones.

    Attributes:
        listed: The names.
        fitted: The parts of those that have numbers of tasks or clones.
    """

    listed: Listed
    fitted: Mapping[str, Parts] = field(repr=False)
    _known: dict[str, Pattern] = field(factory=dict, repr=False)

    @classmethod
    def of_both(cls, few: Listed, more: Listed) -> tuple[Patterns, Patterns]:
        """Return the patterns of the names in two graphs."""
        found = fit(few, more)
        return cls(few, found[0]), cls(more, found[1])

    @property
    def grid(self) -> MapGrid:
        """The grid of the clones."""
        return self.listed.grid

    def of(self, text: str) -> Pattern:
        """Return the pattern of a name of an op, a tensor or a device, or of a text that names a device.

        Raises:
            NotAlikeError: The name is of several tasks or clones.
        """
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._pattern(text, self._parts(text))
        return found

    def _parts(self, text: str) -> Parts:
        if text in self.fitted or text in self.listed.hosts:
            return self.fitted.get(text, (text,))
        op, colon, output = text.rpartition(":")
        if colon:
            return [*self._parts(op), colon + output]
        return list(self._devices(text))

    def _devices(self, text: str) -> Iterator[str | Number]:
        """Yield the texts and the numbers of a text that names devices, as specs or TensorFlow do."""
        end, grid = 0, self.grid
        for match in self._device.finditer(text):
            task, kind, index = (at for at in range(1, 7) if match[at] is not None)
            if match[task]:
                yield from (text[end : match.start(task)], (TASK, Spot(int(match[task]))))
                end = match.end(task)
            if self.listed.by_group and match[kind].lower() == grid.kind:
                group, member = divmod(int(match[index]), grid.members)
                yield from (text[end : match.start(index)], (INDEX + member, Spot(None, group)))
                end = match.end(index)
        yield text[end:]

    def _pattern(self, text: str, parts: Parts) -> Pattern:
        """Return the pattern of a name; what is of the first task or clone beside another stays."""
        spots = [each[1] for each in parts if not isinstance(each, str)]
        host = _only((each.host for each in spots), text)
        group = _only((each.group for each in spots), text)
        spot = Spot(0 if host is None and group is not None else host, group)
        found: list[str | int] = []
        for each in parts:
            what, place = (each, Spot()) if isinstance(each, str) else each
            if isinstance(what, str) or (
                place.host in (None, spot.host) and place.group in (None, spot.group)
            ):
                found.append(what)
            elif place.host or place.group:
                raise NotAlikeError(f"{text} is of several tasks or clones")
            else:
                found.append(_place(what, self.grid, 0, 0))
        return Pattern(_joined(found).parts, spot)

    @cached_property
    def _device(self) -> re.Pattern[str]:
        """What finds devices among which those of clones are."""
        job = self.grid.job
        own = r"(?<!\.)()" if job is None else rf"\b{re.escape(job)}\[(\d+)\]\."
        there = rf"/job_{re.escape(job or LOCAL_JOB)}/replica_0/task_(\d+)/device_"
        return re.compile(rf"{own}(cpu|gpu)\[(\d+)\]|{there}(CPU|GPU)_(\d+)")


def _only(numbers: Iterator[int | None], text: str) -> int | None:
    """Return the only number besides 0, or 0, or None if there is none."""
    found = {each for each in numbers if each is not None}
    if len(found - {0}) > 1:
        raise NotAlikeError(f"{text} is of several tasks or clones")
    return max(found, default=None)
