"""The place of a thing, and the reason for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from attrs import define, field, frozen

from compiler.topology import Device
from dsl import ir
from dsl.source import Span

__all__ = ["Kind", "Placed", "Reason", "record"]

if TYPE_CHECKING:
    from attrs import frozen as record
else:  # what mypy alone keeps from being changed is made in a third of the time; a step has very many
    record = partial(define, unsafe_hash=True, weakref_slot=False)

Kind = Literal["rule", "default", "follows"]


@frozen
class Reason:
    """What put a thing on its device: a rule of the spec, a default, or another thing that it follows."""

    # The rule as it is written in the spec, or the default as it would be written there. For a thing that
    # follows another, the name of the other: a variable, or an op inside its tower.
    text: str
    kind: Kind
    # The rule that decided in the end, or None if a default did.
    rule: ir.Rule | None = field(default=None, repr=False)
    # The rules that matched as well but come earlier in the spec.
    beaten: tuple[ir.Rule, ...] = field(default=(), repr=False)
    # The reason for the place of the thing that is followed.
    cause: Reason | None = field(default=None, repr=False)

    @property
    def root(self) -> Reason:
        """The rule or default at the end of the chain of things that follow each other."""
        return self if self.cause is None else self.cause.root

    @property
    def target(self) -> ir.Target | None:
        """What the rule puts things on; None if a default decided."""
        return None if self.rule is None else self.rule.target

    @property
    def span(self) -> Span | None:
        """The place of the rule in the spec."""
        return None if self.rule is None else self.rule.span


@record
class Placed:
    """The place of a thing."""

    device: Device
    reason: Reason
