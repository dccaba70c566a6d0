"""Parts of a step between functions of TensorFlow, by which other parts are written."""

from __future__ import annotations

from attrs import define, field

from compiler.graph.ledger import Entry, Ledger
from compiler.step.record import Op, Role
from compiler.step.writer import StepWriter


@define
class GraphStep:
    """A part of a step that is written into a graph.

    Attributes:
        ledger: The ledger of the graph, in which the ops are entered.
        role: What the ops are for.
        writer: Writes the ops.
    """

    ledger: Ledger = field(repr=False)
    role: Role
    writer: StepWriter = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.writer = StepWriter(self.role, self.ledger.draft.unique)

    def finish(self) -> None:
        """Add the ops that have been written since the last call to the graph."""
        ops = self.writer.take()
        for each in ops:
            if isinstance(each, Op):
                self.ledger.enter(each.name, Entry(each.placed, each.role, each.clone))
            else:
                for own in each.ops:
                    entry = Entry(each.place_of(own), each.role_of(own), each.clone)
                    self.ledger.enter(each.names[own], entry)
        self.ledger.draft.add(ops)
