"""The update of a variable whose slots are on another device, which is made on the device of the slots.

A fused apply op uses the variable and its slots at once, and all of them must be on its device. The weight is
therefore sent to the slots, updated there in a variable of its own, and sent back. The slots are never sent.
"""

from __future__ import annotations

from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.update.variable.rules import update_apart
from compiler.graph.variables.variables import GraphVariable
from compiler.step.record import Value
from compiler.step.writer import Spot


def slots_are_remote(variable: GraphVariable, copy: int) -> bool:
    """Whether a copy of a variable has slots that are on another device.

    Args:
        variable: The variable.
        copy: The number of the copy, from 0.
    """
    return bool(variable.slots) and variable.slot_place(copy).device != variable.device_of(copy)


def apply_at_slots(
    assembly: Assembly, at: Spot, variable: GraphVariable, copy: int, gradient: Value, scalars: StepScalars
) -> str:
    """Apply a gradient to a copy of a variable, on the device of its slots.

    Returns:
        The name of the op that ends the update.
    """
    assert assembly.rules is not None
    rule, home = assembly.rules.of(variable.name), variable.copies[copy].tensor
    weight, there = at.read(home, "sent"), evolve(at, placed=variable.slot_place(copy))
    # clones that take turns at a variable share the one in which the update is made
    shared = f"{variable.copies[copy].name}/at_slots"
    own = assembly.ledger.writer("variable").variable(
        at.name("weight"), variable.info.dtype, variable.info.shape, shared, there.placed
    )
    slots = [variable.slots[each][copy] for each in rule.slots]
    new = update_apart(assembly, there, rule, own, weight, slots, gradient, scalars.of(rule))
    return at.assign(home, new, "returned")
