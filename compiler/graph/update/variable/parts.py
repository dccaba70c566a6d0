"""The update of a replicated weight of which each clone updates a part: weight-update sharding, ZeRO stage 1.

A clone has the slots of its part alone. It takes the part from its copy of the weight, updates it with the
sum of the gradients of this part, and sends the new part to all other clones. Every copy is then assigned
from the joined parts, so that all copies have the same bits (Xu et al., Automatic Cross-Replica Sharding of
Weight Update in Data-Parallel Training, 2020; Rajbhandari et al., ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.collect import copy_name
from compiler.graph.gradients.unscale import Gate
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.update.variable.averages import move_average
from compiler.graph.update.variable.reads import reads_of
from compiler.graph.update.variable.rules import update_apart
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.step.pieces import take_piece
from compiler.step.record import Tensor, Value
from compiler.step.writer import Spot


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
    updated = [_update(assembly, each, gradient, scalars, gate) for each, gradient in gradients]
    done: list[str] = []
    copies = []
    for copy in range(len(whole.copies)):
        at = _beside(assembly, whole, copy_name(whole, copy), gate, copy)
        if len(updated) > 1:
            gathered = at.writer.concat(f"{at.scope}/gathered", updated, 0, at.placed)
        else:  # the variable has fewer elements than there are clones
            (gathered,) = at.op("Identity", "gathered", *updated)
        joined = at.writer.reshape(f"{at.scope}/Reshape", gathered, whole.info.shape, at.placed)
        if whole.info.constraint is not None:
            joined = write_traced(at, whole.info.constraint, joined)
        copies.append(joined)
        after = at.waiting(reads_of(assembly, whole, copy))
        done.append(after.assign(whole.copies[copy].tensor, joined))
    for number, part in enumerate(parts):
        if part.average is not None:
            at, new = _beside(assembly, part, part.name, gate), updated[number]
            if whole.info.constraint is not None:
                new = take_piece(at, copies[part.copy], part.shard)
            done.append(move_average(assembly, at, part, new, scalars))
    return done


def _beside(assembly: Assembly, variable: GraphVariable, name: str, gate: Gate | None, copy: int = 0) -> Spot:
    """Return where ops are written on the device of a copy, under `name`, that run in good steps only."""
    at = Spot(assembly.ledger.writer("update"), f"{assembly.scope}/{name}", variable.beside(copy))
    return at if gate is None else at.waiting(gate.at(at.placed))


def _update(
    assembly: Assembly, part: VariablePart, gradient: Value, scalars: StepScalars, gate: Gate | None
) -> Tensor:
    """Return the new elements of a part, which is updated in a variable of its own."""
    assert assembly.rules is not None
    rule, at = assembly.rules.of(part.name), _beside(assembly, part, part.name, gate)
    own = assembly.ledger.writer("variable").variable(
        at.name("part"), part.info.dtype, part.info.shape, f"{part.name}/updated", at.placed
    )
    value = take_piece(at, at.read(part.whole.copies[part.copy].tensor), part.shard)
    slots = [part.slots[each][0] for each in rule.slots]
    return update_apart(assembly, at, rule, own, value, slots, gradient, scalars.of(rule))
