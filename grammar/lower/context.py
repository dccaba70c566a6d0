"""The context of lowering: names in scope, and what was found so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from dsl import ir, syntax
from dsl.diagnostics import Diagnostic
from dsl.source import Span
from grammar.reports import Reports


@frozen
class Notes:
    """What lowering has found in the whole spec."""

    constants: set[str] = field(factory=set)  # the names of the constants that are used
    layers: set[str] = field(factory=set)  # the names of the `layer` blocks that are used
    patterns: list[ir.DevicePattern] = field(factory=list)
    inputs: list[ir.Binding] = field(factory=list)
    splits: list[ir.Split] = field(factory=list)
    unknown: set[str] = field(factory=set)
    incomplete: set[str] = field(factory=set)  # the `layer` blocks whose parameters are not all known
    # The names that may have been meant by something with an error; `layer` means any layer, and `let` any
    # constant.
    doubtful: set[str] = field(factory=set)


class Bad:
    """The value of something that has an error. What depends on it is not reported again."""

    def __repr__(self) -> str:
        return "BAD"


BAD: Final = Bad()


def all_of(values: Iterable[Any]) -> Any:
    """Return values as a tuple, or BAD if any of them is."""
    found = tuple(values)
    return BAD if any(each is BAD for each in found) else found


@frozen
class Context:
    """The names in scope, and the collector of diagnostics."""

    reports: Reports
    constants: dict[str, syntax.Attribute] = field(factory=dict)
    values: dict[str, Any] = field(factory=dict)  # the values of the constants that have been computed
    parameters: dict[str, ir.LayerParameter] = field(factory=dict)
    # The names of the tensors of the split that is being lowered, or None if they are not known.
    tensors: frozenset[str] | None = None
    layers: dict[str, ir.LayerBlock] = field(factory=dict)
    # The names of the jobs of the spec, or None if they could not be read.
    jobs: frozenset[str] | None = frozenset()
    # The bindings in scope, with the places of their definitions.
    bound: Mapping[str, Span] = field(factory=dict)
    lost: frozenset[str] = frozenset()  # the names that unreadable parts may define
    allow_python: bool = False
    notes: Notes = field(factory=Notes)

    @property
    def job_names(self) -> frozenset[str]:
        """The names of the jobs as far as they are known."""
        return self.jobs or frozenset()

    def within(self, **changes: Any) -> Context:
        """Return a copy of this context with other names in scope."""
        return evolve(self, **changes)

    def silent(self) -> Context:
        """Return this context with a collector whose diagnostics nobody sees."""
        return evolve(self, reports=Reports(), notes=Notes())

    def refuse(self, report: Diagnostic) -> Bad:
        """Report an error and return BAD, the value of what has it."""
        self.reports.add(report)
        return BAD

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
