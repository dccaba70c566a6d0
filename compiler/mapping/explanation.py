"""Records that explain why an op or a variable is on its device."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from compiler.reasons import Reason
from compiler.shards import Shard
from dsl import ir
from dsl.shown import Shown
from dsl.source import Span

Kind = Literal["op", "variable"]


@frozen
class Link:
    """A thing in a chain of things that follow each other."""

    kind: Kind
    name: str
    device: str  # the name of its device in specs
    reason: Reason


@frozen
class Explanation(Shown):
    """The reason why a thing is on its device."""

    kind: Kind
    name: str
    type: str  # the type of the op, as in `placement.json`
    role: str  # what the op is for, as in `placement.json`
    clone: int | None  # the number of its clone, or None
    requested: str  # the name in specs of the device that the compiler asked for
    chain: tuple[Link, ...]  # the thing itself, and each thing that the one before follows
    # The rule for the optimizer of a variable, or None if all variables have the same one.
    group: ir.OptimizerRule | None = None
    # The place in the spec that says that training does not change a variable, or None if it changes it, or
    # if Keras itself does not train it, such as statistics.
    frozen: Span | None = None
    shard: Shard | None = None  # the piece of a variable that it is, or None
    fewer: str | None = None  # why there are fewer pieces of it than devices that its rule names, or None

    @property
    def decider(self) -> Reason:
        """The rule or default at the end of the chain."""
        return self.chain[-1].reason

    @property
    def beaten(self) -> tuple[ir.Rule, ...]:
        """The rules that matched and did not decide, in the order of their precedence."""
        return tuple(dict.fromkeys(rule for link in self.chain for rule in reversed(link.reason.beaten)))


@frozen
class Explained:
    """What explains the places of things."""

    found: tuple[Explanation, ...]
    # The same things in the forecast of the time of a step: if one task stands for others there, those of
    # this task.
    timed: tuple[Explanation, ...]
