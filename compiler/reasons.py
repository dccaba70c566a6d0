"""Where something was placed, and what put it there."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from compiler.topology import Device
from dsl import ir
from dsl.records import Record

Reason = Literal["rule", "default", "follows"]


@frozen(eq=False, repr=False)
class Why(Record):
    """What put something on its device: a rule of the spec, a default, or a thing that it follows.

    `text` is the rule as it stands in the spec (or would stand, for a default), or the name of what is
    followed: a variable's, or an op's inside its tower. `cause` is the reason of what is followed, and `rule`
    the rule that decided in the end; `beaten` are the rules that matched as well and came earlier.
    """

    text: str
    reason: Reason
    rule: ir.Rule | None = field(default=None, repr=False)
    beaten: tuple[ir.Rule, ...] = field(default=(), repr=False)
    cause: Why | None = field(default=None, repr=False)

    @property
    def root(self) -> Why:
        """The rule or default at the end of the chain of things that follow each other."""
        return self if self.cause is None else self.cause.root


@frozen(eq=False, repr=False)
class Placed(Record):
    """A device, and why."""

    device: Device
    why: Why
