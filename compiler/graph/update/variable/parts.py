"""The update of a replicated weight of which each clone updates a part: weight-update sharding, ZeRO stage 1.

A clone has the slots of its part alone. It takes the part from its copy of the weight, updates it with the
sum of the gradients of this part, and sends the new part to all other clones. Every copy is then assigned
from the joined parts, so that all copies have the same bits (Xu et al., Automatic Cross-Replica Sharding of
Weight Update in Data-Parallel Training, 2020; Rajbhandari et al., ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models, 2020).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.collect import copy_name
from compiler.graph.gradients.copies import Gradient
from compiler.graph.gradients.unscale import Gate
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.update.variable.averages import move_average
from compiler.graph.update.variable.reads import reads_of
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.step.record import Value


def apply_parts(
    assembly: Assembly,
    gradients: Sequence[tuple[VariablePart, Value]],
    scalars: StepScalars,
    gate: Gate | None = None,
) -> list[str]:
    """Update the parts of a weight, each on the device of its clone, and give all copies the new weight.

    Args:
        assembly: The graph under construction.
        gradients: All parts of the weight in their order, each with its gradient.
        scalars: The scalars of the step.
        gate: Runs the ops in good steps only, or None if every step is good.

    Returns:
        The names of the ops that end the updates.
    """
    parts = [part for part, _ in gradients]
    whole = parts[0].whole
    updated = []
    for part, gradient in gradients:
        with _beside(assembly, part, part.name, gate):
            updated.append(_update(assembly, part, assembly.made(gradient), scalars))
    done: list[str] = []
    copies = []
    for copy in range(len(whole.copies)):
        with _beside(assembly, whole, copy_name(whole, copy), gate, copy):
            joined = tf.reshape(tf.concat(updated, 0, name="gathered"), whole.info.shape)
            if whole.info.constraint is not None:
                joined = whole.info.constraint(joined)
            copies.append(joined)
            with tf.control_dependencies(assembly.ops(reads_of(assembly, whole, copy))):
                handle = whole.copies[copy].handle
                done.append(tf.raw_ops.AssignVariableOp(resource=handle, value=joined).name)
    for at, part in enumerate(parts):
        if part.average is not None:
            with _beside(assembly, part, part.name, gate):
                new = updated[at] if whole.info.constraint is None else part.of(copies[part.copy])
                done.append(move_average(assembly, part, new, scalars).name)
    return done


@contextmanager
def _beside(
    assembly: Assembly, variable: GraphVariable, name: str, gate: Gate | None, copy: int = 0
) -> Iterator[None]:
    """Create ops on the device of a copy, in the scope `name`, that run in good steps only."""
    place = variable.beside(copy)
    with assembly.ledger.place(place, "update"), tf.name_scope(f"{assembly.scope}/{name}/"):
        if gate is None:
            yield
        else:
            with gate.at(place):
                yield


def _update(assembly: Assembly, part: VariablePart, gradient: Gradient, scalars: StepScalars) -> tf.Tensor:
    """Return the new elements of a part.

    Optimizers apply gradients to variables, and so the part is updated in a variable of its own, which is not
    used between steps.
    """
    assert assembly.rules is not None
    rule = assembly.rules.of(part.name)
    slots = [part.slots[each][0].handle for each in rule.slots]
    with assembly.ledger.place(part.beside(), "variable"), tf.control_dependencies(None):
        own = tf.raw_ops.VarHandleOp(
            dtype=part.info.dtype, shape=part.info.shape, shared_name=f"{part.name}/updated", name="part"
        )
    taken = tf.raw_ops.AssignVariableOp(resource=own, value=part.read(), name="taken")
    with tf.control_dependencies([taken]):
        applied = rule.apply(own, slots, gradient, scalars.of(rule))
    with tf.control_dependencies([applied]):
        return tf.raw_ops.ReadVariableOp(resource=own, dtype=part.info.dtype, name="updated")
