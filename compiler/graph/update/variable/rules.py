"""The update of one variable, or of a copy of it, by the rule of its optimizer.

A rule is traced once for all variables that are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.optimizers.base import Optimizer, Scalars
from compiler.step.record import Rows, Tensor, Value
from compiler.step.writer import Spot


def write_rule(
    assembly: Assembly,
    at: Spot,
    rule: Optimizer,
    variable: Tensor,
    slots: Sequence[Any],
    gradient: Value,
    scalars: Scalars,
    ended_after: Sequence[str] = (),
) -> str:
    """Write the update of a variable; return the name of the op that ends it."""
    if isinstance(gradient, Rows) and assembly.ledger.entries[gradient.values.op].device != at.placed.device:
        gradient = evolve(gradient, merged=None)  # more rows would be sent
    given = (variable, [each.tensor for each in slots], gradient, scalars)
    ended: str = write_traced(
        at, rule.apply, *given, owner=rule.settings, kind=rule.kind, ended_after=ended_after
    )
    return ended


def update_apart(
    assembly: Assembly,
    at: Spot,
    rule: Optimizer,
    own: Tensor,
    value: Tensor,
    slots: Sequence[Any],
    gradient: Value,
    scalars: Scalars,
) -> Tensor:
    """Update a value in a variable of its own, which is not used between steps.

    Optimizers apply gradients to variables.

    Returns:
        The new value.
    """
    taken = at.assign(own, value, "taken")
    applied = write_rule(assembly, at.waiting([taken]), rule, own, slots, gradient, scalars)
    return at.waiting([applied]).read(own, "updated")
