"""Ops that make all copies of a variable equal again, after one of them has been restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.ledger import Ledger
from compiler.graph.node_writer import NodeWriter
from compiler.reasons import Placed

_SCOPE = "restore"


@define
class EqualCopies:
    """Collects copies that are to be equal. The ops are written as nodes: there is one for each copy.

    Attributes:
        ledger: The ledger of the graph.
    """

    ledger: Ledger = field(repr=False)
    _writer: NodeWriter = field(init=False, repr=False)
    _names: list[str] = field(factory=list, repr=False)

    def __attrs_post_init__(self) -> None:
        self._writer = NodeWriter(tf.compat.v1.get_default_graph(), self.ledger, "init")

    def add(self, name: str, family: Sequence[Any], place: Callable[[int], Placed], kept: Any = None) -> None:
        """Assign `kept`, by default the first copy, to all other copies.

        Args:
            name: The name of what is copied.
            family: The copies, as tf.Variables.
            place: Returns the place of a copy by its number.
            kept: The tf.Variable that has the value.
        """
        source = family[0] if kept is None else kept
        targets = [(copy, each) for copy, each in enumerate(family) if each is not source]
        if not targets:
            return
        writer, flat = self._writer, name.replace("/", "_")
        with tf.name_scope(""):
            first = writer.read(self._unique(flat), source.handle, source.dtype, place(0))
            for copy, target in targets:
                own = self._unique(f"{flat}_replica_{copy}")
                handle = writer.given(target.handle)
                self._names.append(writer.assign(own, handle, first, source.dtype, place(copy)))

    def _unique(self, name: str) -> str:
        return str(self._writer.graph.unique_name(f"{_SCOPE}/{name}"))

    def finish(self) -> list[tf.Operation]:
        """Add the ops to the graph, and return those that assign."""
        self._writer.finish()
        return [self._writer.graph.get_operation_by_name(each) for each in self._names]
