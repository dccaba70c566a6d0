"""Ops that make all copies of a variable equal again, after one of them has been restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from compiler.graph.ledger import Ledger
from compiler.reasons import Placed
from compiler.step.writer import StepWriter

_SCOPE = "restore"


@define
class EqualCopies:
    """Collects copies that are to be equal.

    Attributes:
        ledger: The ledger of the graph.
    """

    ledger: Ledger = field(repr=False)
    _writer: StepWriter = field(init=False, repr=False)
    _names: list[list[str]] = field(factory=list, repr=False)

    def __attrs_post_init__(self) -> None:
        self._writer = self.ledger.writer("init")

    def add(self, name: str, family: Sequence[Any], place: Callable[[int], Placed], kept: Any = None) -> None:
        """Assign `kept`, by default the first copy, to all other copies."""
        source = family[0] if kept is None else kept
        targets = [(copy, each) for copy, each in enumerate(family) if each is not source]
        if not targets:
            return
        writer, flat = self._writer, f"{_SCOPE}/{name.replace('/', '_')}"
        first = writer.read(writer.unique(flat), source.tensor, place(0))
        names = []
        for copy, target in targets:
            own = writer.unique(f"{flat}_replica_{copy}")
            names.append(writer.assign(own, target.tensor, first, place(copy)))
        self._names.append(names)

    def finish(self) -> list[list[str]]:
        """Add the ops to the graph; return the names of those that assign, for each call that wrote some."""
        return self._names
