"""A collector that keeps one error per cause: of a part that is known to be bad it says nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from dsl.diagnostics import Diagnostic, Diagnostics

if TYPE_CHECKING:
    from dsl.source import Source, Span


@frozen(eq=False, repr=False)
class Reports:
    """The diagnostics of one reading."""

    found: Diagnostics = field(factory=Diagnostics)
    _tainted: dict[int, list[Span]] = field(factory=dict, alias="tainted")

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep `diagnostic` unless it points into a part that was tainted."""
        if diagnostic.span is None or not self.is_tainted(diagnostic.span):
            self.found.add(diagnostic)

    def taint(self, span: Span) -> None:
        """From now on report nothing that points into `span`."""
        self._tainted.setdefault(id(span.source), []).append(span)

    def is_tainted(self, span: Span) -> bool:
        """Whether `span` touches a part that was tainted."""
        return any(
            span.start < bad.end and bad.start < max(span.end, span.start + 1)
            for bad in self._tainted.get(id(span.source), ())
        )

    def in_source(self, source: Source) -> int:
        """How many diagnostics point into `source`."""
        return sum(1 for each in self.found if each.span is not None and each.span.source is source)
