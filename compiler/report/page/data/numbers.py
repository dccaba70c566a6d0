"""Numbers for what recurs in the data of the page."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from attrs import define, field

from compiler.mapping.records import Placed, RuleRef

NONE = -1
"""The number of what is not there."""


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


@define
class Tables:
    """What the tree refers to by number.

    Attributes:
        places: The devices.
        names: The parts of the names of ops.
        kinds: What ops have in common: type, role, clone and the number of the spot.
        rules: What placed ops: the reason, the text of the rule, and its file, line and column.
        costs: What ops cost.
        files: The names of the files of the spec.
        spots: The devices of ops: pairs of the device that was asked for and the one on which the op ran, one
            pair for an op by itself, and one for each clone of a family.
    """

    places: Numbers
    names: Numbers = field(factory=Numbers)
    kinds: Numbers = field(factory=Numbers)
    rules: Numbers = field(factory=Numbers)
    costs: Numbers = field(factory=Numbers)
    files: Numbers = field(factory=Numbers)
    spots: Numbers = field(factory=Numbers)

    def pair(self, placed: Placed) -> tuple[int, int]:
        """Return the numbers of a device and of that on which the op ran."""
        requested, assigned = placed
        return self.places.of(requested), NONE if assigned is None else self.places.of(assigned)

    def rule(self, rule: RuleRef) -> int:
        """Return the number of a rule that placed an op."""
        file = NONE if rule.file is None else self.files.of(rule.file)
        return self.rules.of(
            (rule.reason, rule.text, file, rule.line or 0, rule.column or 0, rule.decided_by or "")
        )

    def spot_values(self) -> list[list[Any]]:
        """Return the pairs of each spot."""
        return [list(pairs) for _family, _local, *pairs in self.spots.values()]
