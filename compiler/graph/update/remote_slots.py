"""Updating a variable whose slots live on another device: the update is made where the slots are.

A fused apply op works on variable and slots at once, and all of them must be on its device. So the weight is
sent to the slots, updated there in a variable of its own, and sent back; the slots never travel.
"""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.aggregate.base import Gradient
from compiler.graph.assembly import Assembly
from compiler.graph.optimizers.base import Scalars
from compiler.graph.variables.variables import GraphVariable


def slots_apart(variable: GraphVariable, copy: int) -> bool:
    """Whether a copy of a variable has slots that are not on its device."""
    return bool(variable.slots) and variable.slot_place(copy).device != variable.device_of(copy)


def apply_at_slots(
    assembly: Assembly, variable: GraphVariable, copy: int, gradient: Gradient, scalars: Scalars
) -> tf.Operation:
    """Apply a gradient to a copy of a variable, on the device of its slots; return the op that ends it.

    To be called where ops are placed beside the variable, after the towers' reads.
    """
    assert assembly.optimizer is not None
    home, dtype = variable.copies[copy].handle, variable.info.dtype
    slots = [variable.slots[each][copy].handle for each in assembly.optimizer.slots]
    weight = tf.raw_ops.ReadVariableOp(resource=home, dtype=dtype, name="sent")
    with assembly.ledger.place(variable.slot_place(copy), "update"):
        own = _own_weight(assembly, variable, copy)
        taken = tf.raw_ops.AssignVariableOp(resource=own, value=weight, name="taken")
        with tf.control_dependencies([taken]):
            applied = assembly.optimizer.apply(own, slots, gradient, scalars)
        with tf.control_dependencies([applied]):
            new = tf.raw_ops.ReadVariableOp(resource=own, dtype=dtype, name="updated")
    return tf.raw_ops.AssignVariableOp(resource=home, value=new, name="returned")


def _own_weight(assembly: Assembly, variable: GraphVariable, copy: int) -> tf.Tensor:
    """Return the handle of the variable in which the update is made; between updates it holds nothing.

    Clones that take turns at a variable share it.
    """
    place = assembly.ledger.place(variable.slot_place(copy), "variable")
    name = f"{variable.copies[copy].handle.op.name}/at_slots"
    with place, tf.control_dependencies(None):
        return tf.raw_ops.VarHandleOp(
            dtype=variable.info.dtype, shape=variable.info.shape, shared_name=name, name="weight"
        )
