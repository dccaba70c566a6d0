"""Numbers as people read them, values in lists by what they have in common, and what follows on things."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Hashable, Iterable
from typing import TypeVar

NOTHING = "."
"""The text for zero in a table, so that other figures are seen at once."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_ALMOST = 0.9995  # what is rounded to a whole unit is written in it


def count(number: int) -> str:
    """Return a number with its thousands separated, `.` for zero."""
    return f"{number:,}" if number else NOTHING


def plural(number: int, noun: str) -> str:
    """Return `1 op`, `2 ops`, `1,234 ops`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Return a number of bytes with three digits and a binary unit (`1.23 MiB`), `.` for zero."""
    if number == 0:
        return NOTHING
    if abs(number) < _STEP:
        return f"{number} B"
    value, unit = float(number), 0
    while abs(value) >= _STEP and unit < len(_UNITS) - 1:
        value /= _STEP
        unit += 1
    digits = max(0, 3 - len(str(int(abs(value)))))
    return f"{value:.{digits}f} {_UNITS[unit]}"


def share(part: float, whole: float) -> str:
    """Return a part of a whole in per cent (`38%`), `.` if the whole is nothing."""
    return f"{part / whole:.0%}" if whole else NOTHING


def size_of_known(known: int, unknown: int) -> str:
    """Return a number of bytes, followed by `+` if there are also tensors of unknown size."""
    return f"{size(known)}+" if unknown else size(known)


def duration(seconds: float) -> str:
    """Return a time with three digits and a unit (`1.23 ms`), `.` for zero."""
    if seconds == 0:
        return NOTHING
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
    unit, one = next((each for each in units if abs(seconds) >= each[1] * _ALMOST), units[-1])
    value = float(f"{seconds / one:.3g}")
    digits = max(0, 3 - len(str(int(abs(value)))))
    return f"{value:.{digits}f} {unit}"


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ranges, both ends included: `0..3,6`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def gathered(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of pairs in a list for each key; keys and values keep the order of the pairs."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def distinct(name: str, taken: Container[str]) -> str:
    """Return a name if it is not taken, or else with the lowest number behind it with which it is not."""
    numbered = (f"{name}_{number}" for number in itertools.count(1))
    return next(each for each in itertools.chain([name], numbered) if each not in taken)


def reached(first: Iterable[K], following: Callable[[K], Iterable[K]]) -> dict[K, None]:
    """Return some things and all that follow on them, however far, each once and always in the same order."""
    pending, found = [*first], dict[K, None]()
    while pending:
        each = pending.pop()
        if each not in found:
            found[each] = None
            pending += following(each)
    return found
