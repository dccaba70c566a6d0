"""A step whose variables are elsewhere, from one that was written: the same ops on other devices."""

from __future__ import annotations

from attrs import evolve

from compiler.placement.rules import Rulebook, rule_text
from compiler.placement.variable_rules import place_variables
from compiler.plan import Plan
from compiler.suggest.steps.origin import Origin
from compiler.suggest.steps.result import Written
from compiler.suggest.steps.weights import infos_of


def move_step(origin: Origin, written: Written, plan: Plan) -> Written | None:
    """Return the step of another plan, or None if it has to be written: if it has other ops.

    It has the same ops if whole variables, each on one device, are only on other devices.

    Args:
        origin: The step of the graph.
        written: A step that was written from it.
        plan: The other plan.

    Raises:
        SpecError: A variable cannot be placed by the rules.
    """
    if written.beside is None or _frame(written.plan) != _frame(plan):
        return None
    book = Rulebook(plan.spec.place.rules, plan.topology)
    infos = [each for weight in origin.weights.values() for each in infos_of(book, weight.info)]
    placements = place_variables(book, infos, plan.towers)
    if any(each.info.shard is not None or each.copies or each.parts for each in placements):
        return None
    ops = list(written.work.ops)
    for each in placements:
        beside = written.beside[each.info.weight]
        for numbers, device in (
            (beside.variable, each.placed.device),
            (beside.slots, each.slots.device),
            (beside.sums, book.updates(each).device),
        ):
            for number in numbers:
                if ops[number].device != device:
                    ops[number] = ops[number].on(device)
    return Written(plan, evolve(written.work, ops=tuple(ops)), placements, written.beside)


def _frame(plan: Plan) -> object:
    """Return what the ops of a step depend on besides the places of its variables."""
    towers = tuple((each.scope, each.devices, each.batch) for each in plan.towers)
    rules = tuple(rule_text(each) for each in plan.spec.place.rules if each.selector.role != "variables")
    return towers, rules, plan.update.aggregate.name, plan.update.pack
