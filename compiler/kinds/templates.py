"""Names with places for the numbers of tasks and clones, as texts of a placement map by kinds.

`clone_{clone}/conv1/Conv2D` on `worker[{task}].gpu[{device}]`: such a text is a format string of Python, so
that braces of a name itself are doubled.
"""

from __future__ import annotations

import re
from string import Formatter

from attrs import define, field, frozen

from compiler.kinds.grid import MapGrid, NotAlikeError

CLONE, TASK, PLACE, LESS, SUFFIX, INDEX = range(6)
"""What a place is for: see `NAMES`. From `INDEX` on there are the devices of the clone."""

SUM = 1 << 20
"""From here on a place is for the sums of the task: the number of one among the sums of all tasks."""

NAMES = ("clone", "task", "place", "clone_less", "suffix", "device")
"""The number of the clone, that of its task, its number on the task, that of the clone before it, how
TensorFlow tells names apart (nothing for clone 1, `_1` for clone 2), and the index of its first device."""

ORDINAL = "{ordinal}"
"""The position of a device in the map, which the names of emulated devices have."""

_NUMBERED = re.compile(r"clone_(0|[1-9]\d{0,8})|device_([1-9]\d{0,8})|sum_(0|[1-9]\d{0,8})")


@define
class Numbers:
    """The numbers in the names of a grid, as texts.

    Attributes:
        grid: The grid.
    """

    grid: MapGrid
    _known: dict[tuple[int, int], tuple[str, ...]] = field(factory=dict)

    def of(self, host: int, group: int) -> tuple[str, ...]:
        """Return the texts of a clone, by what they are of, and then its devices' indices."""
        key = (host, group)
        found = self._known.get(key)
        if found is None:
            grid = self.grid
            clone, first = grid.number(host, group), group * grid.members
            suffix = f"_{clone - 1}" if clone > 1 else ""
            devices = map(str, range(first, first + grid.members))
            found = (str(clone), str(host), str(group), str(clone - 1), suffix, *devices)
            self._known[key] = found
        return found


@frozen
class Template:
    """A text with places for numbers.

    Attributes:
        parts: Texts, and between them what is to be written: a number of `NAMES`, `INDEX` and more for the
            devices of the clone, -1 and less for clone 0 of the task and those that follow, and `SUM` and
            more for its sums.
    """

    parts: tuple[str | int, ...]

    def at(self, numbers: Numbers, host: int, group: int) -> str:
        """Return the text for a task and a clone."""
        parts = self.parts
        if len(parts) == 1 and isinstance(parts[0], str):
            return parts[0]
        texts = numbers.of(host, group)
        return "".join(
            [
                each
                if isinstance(each, str)
                else texts[each]
                if 0 <= each < SUM
                else _of_task(numbers.grid, host, each)
                for each in parts
            ]
        )

    def is_ordered_as(self, other: Template) -> bool:
        """Whether the texts of this one and of another are in the same order for all tasks and clones."""
        for own, its in zip(self.parts, other.parts, strict=False):
            if own == its:
                continue
            if isinstance(own, int) or isinstance(its, int):
                return False
            short = min(len(own), len(its))
            return own[:short] != its[:short]
        return len(self.parts) == len(other.parts)

    def text(self) -> str:
        """Return it as it is written."""
        return "".join(
            escaped(each) if isinstance(each, str) else f"{{{_name(each)}}}" for each in self.parts
        )


def _of_task(grid: MapGrid, host: int, what: int) -> str:
    """Return the number of a clone or a sum of a task, by its place there."""
    return str(grid.number(host, -1 - what) if what < 0 else grid.number_of_sum(host, what - SUM))


def escaped(text: str) -> str:
    """Return a text without places, as a template."""
    return text.replace("{", "{{").replace("}", "}}")


def parse(text: str, grid: MapGrid) -> Template:
    """Return a template.

    Raises:
        NotAlikeError: It has places that are not known, or is no format string.
    """
    if "{" not in text and "}" not in text:
        return Template((text,))
    parts: list[str | int] = []
    try:
        for literal, name, spec, conversion in Formatter().parse(text):
            if literal:
                parts.append(literal)
            if name is not None:
                if spec or conversion:
                    raise NotAlikeError(f"has the place `{{{name}}}` with a format")
                parts.append(_what(name, grid))
    except ValueError:
        raise NotAlikeError("has a brace that is not closed, or not opened") from None
    joined: list[str | int] = []
    for each in parts:
        if joined and isinstance(each, str) and isinstance(joined[-1], str):
            joined[-1] += each
        else:
            joined.append(each)
    return Template(tuple(joined))


def _name(what: int) -> str:
    if what < 0:
        return f"clone_{-1 - what}"
    if what >= SUM:
        return f"sum_{what - SUM}"
    return NAMES[what] if what <= INDEX else f"device_{what - INDEX}"


def _what(name: str, grid: MapGrid) -> int:
    if name in NAMES:
        return NAMES.index(name)
    match = _NUMBERED.fullmatch(name)
    if match is not None and match[1] is not None:
        return -1 - int(match[1])
    if match is not None and match[2] is not None and int(match[2]) < grid.members:
        return INDEX + int(match[2])
    if match is not None and match[3] is not None and int(match[3]) < grid.sums:
        return SUM + int(match[3])
    raise NotAlikeError("has a place in braces that is not known")
