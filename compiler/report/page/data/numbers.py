"""Numbers for what recurs in the data of the page."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from attrs import define, field


@define
class Numbers:
    """Numbers for values, in the order in which they are first seen.

    Attributes:
        given: The number of each value that has been seen.
    """

    given: dict[Hashable, int] = field(factory=dict)

    def of(self, value: Hashable) -> int:
        """Return the number of `value`."""
        return self.given.setdefault(value, len(self.given))

    def values(self) -> list[Any]:
        """Return the values in the order of their numbers."""
        return list(self.given)
