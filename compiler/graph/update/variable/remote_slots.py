"""The update of a variable whose slots are on another device, which is made on the device of the slots.

A fused apply op uses the variable and its slots at once, and all of them must be on its device. The weight is
therefore sent to the slots, updated there in a variable of its own, and sent back. The slots are never sent.
"""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.copies import Gradient
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.variables.variables import GraphVariable


def slots_are_remote(variable: GraphVariable, copy: int) -> bool:
    """Whether a copy of a variable has slots that are on another device.

    Args:
        variable: The variable.
        copy: The number of the copy, from 0.
    """
    return bool(variable.slots) and variable.slot_place(copy).device != variable.device_of(copy)


def apply_at_slots(
    assembly: Assembly, variable: GraphVariable, copy: int, gradient: Gradient, scalars: StepScalars
) -> tf.Operation:
    """Apply a gradient to a copy of a variable, on the device of its slots.

    Call it inside a place beside the variable, after the reads of the towers.

    Args:
        assembly: The graph under construction.
        variable: The variable.
        copy: The number of the copy.
        gradient: The gradient.
        scalars: The scalars of the step.

    Returns:
        The op that ends the update.
    """
    assert assembly.rules is not None
    rule = assembly.rules.of(variable.name)
    home, dtype = variable.copies[copy].handle, variable.info.dtype
    slots = [variable.slots[each][copy].handle for each in rule.slots]
    weight = tf.raw_ops.ReadVariableOp(resource=home, dtype=dtype, name="sent")
    with assembly.ledger.place(variable.slot_place(copy), "update"):
        own = _own_weight(assembly, variable, copy)
        taken = tf.raw_ops.AssignVariableOp(resource=own, value=weight, name="taken")
        with tf.control_dependencies([taken]):
            applied = rule.apply(own, slots, gradient, scalars.of(rule))
        with tf.control_dependencies([applied]):
            new = tf.raw_ops.ReadVariableOp(resource=own, dtype=dtype, name="updated")
    return tf.raw_ops.AssignVariableOp(resource=home, value=new, name="returned")


def _own_weight(assembly: Assembly, variable: GraphVariable, copy: int) -> tf.Tensor:
    """Return the handle of the variable in which the update is made; between updates it is not used.

    Clones that take turns at a variable share it.
    """
    place = assembly.ledger.place(variable.slot_place(copy), "variable")
    name = f"{variable.copies[copy].name}/at_slots"
    with place, tf.control_dependencies(None):
        return tf.raw_ops.VarHandleOp(
            dtype=variable.info.dtype, shape=variable.info.shape, shared_name=name, name="weight"
        )
