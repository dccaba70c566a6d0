"""Takes the step of a graph apart, for placements that are compared without being built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from compiler.placement.rules import Rulebook
from compiler.plan import VariableInfo, WorkerPlan
from compiler.suggest.steps.origin import OpOrigin, Origin, Weight
from compiler.suggest.steps.weights import held_bytes
from dsl import ir

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.variables.variables import GraphVariable
    from compiler.plan import Plan
    from compiler.step.step import Step
    from compiler.time.work import StepWork
    from compiler.topology import Device


def origin_of(compiled: CompiledGraph, work: StepWork | None) -> Origin | None:
    """Return the step of a graph taken apart, or None if it has parts that cannot be written anew.

    These are updates that are no plain synchronous ones, statistics in pieces, and graphs of which each
    worker has its own.

    Args:
        compiled: The graph.
        work: Its step, or None if it is not known.
    """
    plan = compiled.plan
    update = plan.spec.update
    plain = update.mode == "sync" and update.averaging is None and compiled.loss_scale is None
    over_clones = any(isinstance(each.target, ir.OverClones) for each in plan.spec.place.rules)
    if work is None or isinstance(plan, WorkerPlan) or not plain or over_clones or len(compiled.losses) != 1:
        return None
    placements = [each.placement for each in compiled.variables.values()]
    if any(each.info.shard is not None and not each.info.trainable for each in placements):
        return None
    names = set(compiled.variables) | set(compiled.weights)
    ops = []
    for op in work.ops:
        known = compiled.step.ops[op.name]
        reason = known.placed.reason
        follows = reason.text if reason.kind == "follows" and reason.text in names else ""
        if follows in compiled.variables:
            follows = compiled.variables[follows].placement.info.weight
        ops.append(OpOrigin(known.role, follows, fixed=reason.text.startswith("strings -> ")))
    families: dict[str, list[GraphVariable]] = {}
    for variable in compiled.variables.values():
        families.setdefault(variable.placement.info.weight, []).append(variable)
    weights = {name: _weight(name, family) for name, family in families.items()}
    return Origin(plan, work, ops, weights)


def _weight(name: str, family: list[GraphVariable]) -> Weight:
    """Return a weight from the variables of its pieces, or from its own."""
    first = family[0]
    infos = [each.placement.info for each in family]
    shape = infos[0].shape if infos[0].shard is None else infos[0].shard.whole
    whole = VariableInfo(
        name,
        shape,
        infos[0].dtype,
        sum(each.bytes for each in infos),
        infos[0].trainable,
        sum(each.slot_bytes for each in infos),
    )
    handles = [first.copies[0].handle.op.name]
    handles += [copies[0].handle.op.name for copies in first.slots.values()]
    return Weight(whole, first.name, tuple(handles), held_bytes([each.placement for each in family]))


def require_buildable(compiled: CompiledGraph, plan: Plan) -> None:
    """Raise SpecError if the graph of another plan of the same model could not be built.

    Args:
        compiled: A graph of the model.
        plan: The plan.

    Raises:
        SpecError: What is done with a weight cannot be done with its pieces, or a rule names nothing.
    """
    from compiler.graph.optimizers import make_groups
    from compiler.graph.optimizers.divisible import require_divisible
    from compiler.graph.optimizers.groups import assign_rules
    from compiler.graph.variables.variables import cut_weights
    from tfdeploy.runtime.plans import folder_of

    book = Rulebook(plan.spec.place.rules, plan.topology)
    if not any(isinstance(each.target, ir.Sharded) for each in book.rules):
        return
    groups = make_groups(plan.update, str(folder_of(plan.spec)))
    rules = assign_rules(groups, compiled.weights) if groups else None
    require_divisible(plan, book, cut_weights(compiled.weights, book), rules)


def following_ops(step: Step, homes: Mapping[str, Device]) -> dict[str, Device]:
    """Return the new devices of the ops that are beside a variable, and of the variables themselves.

    Args:
        step: The step.
        homes: The new device of each variable that has moved, by its name.
    """
    found = {
        op.name: homes[op.placed.reason.text]
        for op in step.ops.values()
        if op.placed.reason.kind == "follows" and op.placed.reason.text in homes
    }
    for name, variable in step.variables.items():
        found |= dict.fromkeys(variable.copies, homes[name])
    return found
