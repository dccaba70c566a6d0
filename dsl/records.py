"""What all records have in common: they are equal when they are of one class and mean the same.

attrs would write these methods for every class when it is imported, which for the hundred classes of this
project is a third of the time that a command takes to start. So records are declared
`@frozen(eq=False, repr=False)` and have them from here; `field(eq=False)` and `field(repr=False)` count as
usual. For the same reason those that every command loads say `slots=False`: a class with slots is made twice.
"""

from __future__ import annotations

from typing import Any


class Record:
    """The base of every frozen record."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _compared(type(self)))

    def __hash__(self) -> int:
        return hash((self.__class__, *(getattr(self, name) for name in _compared(self.__class__))))

    def __repr__(self) -> str:
        fields: Any = type(self).__attrs_attrs__  # type: ignore[attr-defined] # every record is an attrs class
        shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields if each.repr)
        return f"{self.__class__.__qualname__}({shown})"


def _compared(cls: Any) -> tuple[str, ...]:
    """Return the names of the fields that count for equality."""
    found = _COMPARED.get(cls)
    if found is None:
        found = _COMPARED[cls] = tuple(each.name for each in cls.__attrs_attrs__ if each.eq)
    return found


_COMPARED: dict[Any, tuple[str, ...]] = {}
