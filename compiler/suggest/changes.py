"""What a suggestion changes in a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen


@frozen
class Changes:
    """Rules and attributes that are not those of a spec.

    Attributes:
        rules: The new rules of each role, as text.
        values: The new values of attributes by block and name, as text, such as
            `{("update", "pack"): "4MiB"}`.
        notes: What stays equal, and what does not, by the part of the spec that is varied.
    """

    rules: Mapping[str, tuple[str, ...]] = field(factory=dict)
    values: Mapping[tuple[str, str], str] = field(factory=dict)
    notes: Mapping[str, str] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rules or self.values)

    def having(self, other: Changes) -> Changes:
        """Return these changes and others, which come first."""
        return Changes(
            {**self.rules, **other.rules}, {**self.values, **other.values}, {**self.notes, **other.notes}
        )

    def text(self) -> str:
        """Return the rules and values as text."""
        rules = [rule for of_role in self.rules.values() for rule in of_role]
        values = [f"{block}.{name} = {value}" for (block, name), value in self.values.items()]
        return ", ".join([*rules, *values])

    def without_role(self, role: str) -> Changes:
        """Return these changes without the rules of a role."""
        return evolve(self, rules={each: rules for each, rules in self.rules.items() if each != role})

    def parts(self) -> Sequence[Changes]:
        """Return what is left if one of the changes that need no other is taken back: one for each."""
        free = [each for each in self.rules if each != "clones"]
        found = [self.without_role(each) for each in free]
        for key in self.values:
            if key[0] == "update":
                values = {each: value for each, value in self.values.items() if each != key}
                notes = {each: note for each, note in self.notes.items() if each != key[1]}
                found.append(evolve(self, values=values, notes=notes))
        return found
