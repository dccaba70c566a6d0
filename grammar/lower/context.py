"""What lowering knows while it reads a part of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from dsl import ir, syntax
from dsl.source import Span
from grammar.reports import Reports


class Bad:
    """The value of what is wrong and was reported: whatever depends on it keeps silent."""

    def __repr__(self) -> str:
        return "BAD"


BAD: Final = Bad()


@frozen
class Notes:
    """What lowering came across: names that were used, records that were read, what was reported.

    `unknown` are names that are not defined, `incomplete` `layer` blocks whose parameters are not all known,
    `doubtful` what may have been meant by what is wrong (`layer` stands for any layer, `let` for any
    constant).
    """

    constants: set[str] = field(factory=set)
    layers: set[str] = field(factory=set)
    patterns: list[ir.DevicePattern] = field(factory=list)
    inputs: list[ir.Binding] = field(factory=list)
    splits: list[ir.Split] = field(factory=list)
    unknown: set[str] = field(factory=set)
    incomplete: set[str] = field(factory=set)
    doubtful: set[str] = field(factory=set)


@frozen
class Context:
    """The names in scope and the collector of diagnostics.

    `constants` are those of `let` and `values` what they stand for; `parameters` those of the `layer` block
    that is being read; `tensors` those of the examples where a split is being read (None where they cannot be
    known); `layers` are all `layer` blocks by name; `bound` the bindings around, with where they are made;
    `lost` are the names that unreadable parts may define.
    """

    reports: Reports
    constants: dict[str, syntax.Attribute] = field(factory=dict)
    values: dict[str, Any] = field(factory=dict)
    parameters: dict[str, ir.LayerParameter] = field(factory=dict)
    tensors: frozenset[str] | None = None
    layers: dict[str, ir.LayerBlock] = field(factory=dict)
    bound: Mapping[str, Span] = field(factory=dict)
    lost: frozenset[str] = frozenset()
    allow_python: bool = False
    notes: Notes = field(factory=Notes)

    def within(self, **changes: Any) -> Context:
        """Return this context with other names in scope."""
        return evolve(self, **changes)

    def silent(self) -> Context:
        """Return this context with a collector whose diagnostics nobody sees."""
        return evolve(self, reports=Reports(), notes=Notes())

    def may_exist(self, name: str) -> bool:
        """Whether `name` may have been defined in a part that could not be read."""
        return name in self.lost or name in self.notes.doubtful

    def is_silent(self, name: str) -> bool:
        """Whether nothing is to be said of an unknown `name`.

        It may be defined in a part that could not be read, or it was reported already: one missing definition
        is one error, however often it is used.
        """
        if self.may_exist(name) or name in self.notes.unknown:
            return True
        self.notes.unknown.add(name)
        return False
