"""Sum the gradients of a step over the towers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.copies import values_of, with_values
from compiler.graph.gradients.pieces import cut_gradients
from compiler.graph.gradients.regularize import Unregularized, add_regularization
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.weighting import SCOPE, inverse_weights
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.placement.rules import following
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Tensor, Value
from compiler.step.sums import Reduction, reduce_all
from compiler.step.writer import Spot, StepWriter


def sum_gradients(assembly: Assembly) -> list[SummedGradient]:
    """Sum the gradients of each variable, for each part of the loss, over the towers.

    The gradients of parts with a weight are divided by it later, unless the sum is one of the means of the
    towers.
    """
    wanted = _in_order_of_backprop(assembly)
    inverses = {tower.tower.index: _inverses(assembly, tower) for tower in assembly.towers}
    writer = assembly.ledger.writer("aggregate")
    summed: list[tuple[int, GraphVariable]] = []
    reductions: list[Reduction] = []
    for part, weight in wanted:
        homes = {each.tower.index: _home_of(assembly, each, part, weight) for each in assembly.towers}
        pieces = cut_gradients(assembly, part, weight, homes)
        for at, variable in enumerate(assembly.updated_of(weight)):
            own = {index: each[at] for index, each in pieces.items()}
            reductions.append(_reduction(assembly, writer, part, variable, len(summed), inverses, homes, own))
            summed.append((part, variable))
    sums = reduce_all(reductions, assembly.plan.update)
    return [
        SummedGradient(variable, tuple(copies), part)
        for (part, variable), copies in zip(summed, sums, strict=True)
    ]


def _in_order_of_backprop(assembly: Assembly) -> list[tuple[int, str]]:
    """Return the weights that have a gradient of a part, in the order in which the gradients are computed.

    Statistics, and weights on which the part does not depend, are left out.
    """
    template = assembly.towers[0].template
    position = {node.name: at for at, node in enumerate(template.graph_def.node)}
    found = [
        (position[gradient.values.partition(":")[0]], part, name)
        for part, each in enumerate(template.losses)
        for name, gradient in each.gradients.items()
        if all(name in tower.template.losses[part].gradients for tower in assembly.towers)
    ]
    return [(part, name) for _, part, name in sorted(found, key=lambda each: each[0])]


def _inverses(assembly: Assembly, tower: StampedTower) -> list[Tensor | None]:
    """Return for each part of the loss the factor on a tower's gradient before it is summed.

    It is one over the tower's own weight if the means of the towers are averaged, else None.
    """
    parts = tower.template.losses
    if assembly.plan.update.reduce != "sum" or all(each.weight is None for each in parts):
        return [None] * len(parts)
    place = Placed(tower.tower.device, tower.tower.reason)
    at = Spot(assembly.ledger.writer("aggregate"), f"aggregate/{SCOPE}/clone_{tower.tower.index}", place)
    return inverse_weights(at, [None if each.weight is None else tower.record(each.weight) for each in parts])


def _reduction(
    assembly: Assembly,
    writer: StepWriter,
    part: int,
    variable: GraphVariable,
    number: int,
    inverses: Mapping[int, Sequence[Tensor | None]],
    places: Mapping[int, Placed],
    gradients: Mapping[int, Value],
) -> Reduction:
    homes = [places[tower.tower.index] for tower in assembly.towers]
    name = f"{variable.name}/part_{part}" if part else variable.name
    values = []
    for tower, home in zip(assembly.towers, homes, strict=True):
        value, factor = gradients[tower.tower.index], inverses[tower.tower.index][part]
        if factor is not None:
            at = Spot(writer, f"aggregate/{name}", home)
            value = with_values(value, at.times(values_of(value), factor))
        values.append(value)
    destinations = _destinations(assembly, variable, homes[number % len(homes)])
    owner = variable.copy if isinstance(variable, VariablePart) else None
    distinct = variable.info.shard is not None  # rows of equal index are summed before they are cut
    return Reduction(name, values, homes, destinations, writer, number, owner, distinct)


def _home_of(assembly: Assembly, tower: StampedTower, part: int, weight: str) -> Placed:
    """Return the place where a tower has made a gradient."""
    inner = tower.template.losses[part].gradients[weight].values
    placed = assembly.ledger.entries[tower.record(inner).op].placed
    return Placed(placed.device, following(inner.partition(":")[0], placed))


def _destinations(assembly: Assembly, variable: GraphVariable, home: Placed) -> Sequence[Placed]:
    """Return the places that need a sum: those of the variable's updates, or one beside a clone (`home`).

    It is the latter if a worker sends its gradients to others, so that the sum of all its clones is sent
    once.
    """
    if isinstance(assembly.plan, WorkerPlan):
        return [home]
    if isinstance(variable, VariablePart):
        return [variable.beside()]
    if variable.replicated:
        return [variable.beside(copy) for copy in range(len(variable.copies))]
    return [assembly.rulebook.updates(variable.placement)]


def regularize_gradients(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Add the gradients of regularizers, once for each step whatever the number of clones."""
    wanted = [
        Unregularized(each.variable, copy, f"{assembly.scope}/{copy_name(each.variable, copy)}", gradient)
        for each in gradients
        for copy, gradient in enumerate(each.copies)
    ]
    found = iter(add_regularization(wanted, assembly.ledger))
    return [evolve(each, copies=tuple(islice(found, len(each.copies)))) for each in gradients]


def copy_name(variable: GraphVariable, copy: int) -> str:
    """Return the name of a copy of a variable; copy 0 has the variable's own.

    Args:
        variable: The variable.
        copy: The number of the copy, from 0.
    """
    return f"{variable.name}/replica_{copy}" if copy else variable.name
