"""What comes of writing a step: the step itself, and which of its ops are beside which variable."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen

from compiler.plan import Plan, VariablePlacement
from compiler.time.work import StepWork


@define
class Beside:
    """The ops of a step whose device is that of a variable, by their numbers.

    Attributes:
        variable: Those on the device of the variable itself.
        slots: Those on the device of its slots.
        sums: Those on the device where its gradients are summed.
    """

    variable: list[int] = field(factory=list)
    slots: list[int] = field(factory=list)
    sums: list[int] = field(factory=list)


@frozen
class Written:
    """A step that was written.

    Attributes:
        plan: Its plan.
        work: The step.
        placements: The places of the variables and their pieces.
        beside: The ops beside each weight, if the step has the same ops wherever the weights are as long as
            these are whole; else None.
    """

    plan: Plan = field(repr=False)
    work: StepWork = field(repr=False)
    placements: tuple[VariablePlacement, ...] = field(repr=False)
    beside: Mapping[str, Beside] | None = field(repr=False)
