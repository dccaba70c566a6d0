"""The numbers and sizes that arguments of Keras objects take, found by making objects with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinds import ONLY, RANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = list[Any]

_INTEGERS = (-2, -1, 0, 1, 2, 3, 4)
_NUMBERS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
_TRIED = {"int": _INTEGERS, "shape": _INTEGERS, "float": _NUMBERS, "any": _NUMBERS}
_LENGTHS = range(1, 5)
_HALF = 0.5  # between two bounds that are excluded


def with_ranges(owner: Any, name: str, rows: list[Any], required: dict[str, Any]) -> list[Any]:
    """Return the rows of an object with the bounds of its arguments.

    Args:
        owner: The class, or the function, that makes the object.
        name: Its name.
        rows: The rows of its arguments.
        required: Values of its arguments that must be given.
    """
    made = _works(owner, required, {})
    return [
        _with_range(owner, name, each, required, probe=made) if isinstance(each, list) else each
        for each in rows
    ]


def _with_range(owner: Any, name: str, row: Row, required: dict[str, Any], *, probe: bool) -> Row:
    argument, written, *default = row
    kind, colon, of = written.partition(":")
    plain = kind.rstrip("?")
    end = written[len(plain) :]
    if plain == "bool" and argument in ONLY:
        return [argument, f"bool={ONLY[argument]}{end}", *default]
    if plain not in _TRIED or (colon and of.rstrip("?") != "schedule"):
        return row

    def takes(value: Any) -> bool:
        return _works(owner, required, {argument: value})

    found = _interval(_TRIED[plain], takes) if probe else ""
    bounds = next((RANGES[key] for key in (f"{name}.{argument}", argument) if key in RANGES), found)
    if plain == "any" and not bounds:
        return row
    lengths = [each for each in _LENGTHS if takes([1] * each)] if probe and plain == "shape" else []
    length = f"*{lengths[0]}" if len(lengths) == 1 else ""
    return [argument, f"{plain}{bounds}{length}{end}", *default]


def _works(owner: Any, required: dict[str, Any], more: dict[str, Any]) -> bool:
    try:
        owner(**{**required, **more})
    except Exception:  # noqa: BLE001 Keras raises errors of every kind
        return False
    return True


def _interval(tried: Sequence[float], takes: Callable[[Any], bool]) -> str:
    """Return the interval of the numbers that are taken; nothing if all are, or if they are no interval."""
    taken = [takes(each) for each in tried]
    if all(taken) or not any(taken):
        return ""
    first, last = taken.index(True), len(taken) - 1 - taken[::-1].index(True)
    if not all(taken[first : last + 1]) or (first == last and tried[first] != _HALF):
        return ""
    low = None if first == 0 else tried[first]
    high = None if last == len(taken) - 1 or isinstance(tried[last], int) else tried[last]
    if low is None and high is None:
        return ""  # whole numbers whose bound above depends on another argument
    left = "," if low is None else f"{0 if low == _HALF else low:g},"
    right = "" if high is None else f"{1 if high == _HALF else high:g}"
    return f"{'(' if low == _HALF else '['}{left}{right}{')' if high == _HALF else ']'}"
