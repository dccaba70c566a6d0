"""Records that say why an op or a variable is where it is."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from compiler.reasons import Reason
from dsl import ir

Kind = Literal["op", "variable"]


@frozen
class Link:
    """One thing of a chain: where it is, and what put it there."""

    kind: Kind
    name: str
    device: str
    reason: Reason


@frozen
class Explanation:
    """Why something is where it is. `role`, `type` and `clone` are those of `placement.json`.

    `requested` is the device's name in specs, `assigned` what TensorFlow made of it (None before a step).
    """

    kind: Kind
    name: str
    type: str
    role: str
    clone: int | None
    requested: str
    assigned: str | None
    chain: tuple[Link, ...]

    @property
    def decider(self) -> Reason:
        """The rule or default at the end of the chain."""
        return self.chain[-1].reason

    @property
    def beaten(self) -> tuple[ir.Rule, ...]:
        """The rules that matched and lost, those that came closest to winning first."""
        return tuple(dict.fromkeys(rule for link in self.chain for rule in reversed(link.reason.beaten)))
