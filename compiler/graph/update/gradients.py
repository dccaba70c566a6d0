"""Gradients of a step on their way from the towers to the variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.aggregate import reduce_all
from compiler.graph.aggregate.base import Gradient, Reduction
from compiler.graph.assembly import Assembly
from compiler.graph.numerics.regularize import add_regularization
from compiler.graph.stamp import StampedTower
from compiler.graph.variables import GraphVariable
from compiler.reasons import Placed
from compiler.rules import following


@frozen
class SummedGradient:
    """The gradient of a variable over the towers of an update, for each copy of the variable.

    A sparse one has distinct indices. All copies of a replicated variable get the same bits.
    """

    variable: GraphVariable
    copies: tuple[Gradient, ...]


def sum_gradients(assembly: Assembly) -> list[SummedGradient]:
    """Sum every variable's gradient over the towers, where it is wanted."""
    variables = _in_order_of_backprop(assembly)
    reductions = [_reduction(assembly, each, number) for number, each in enumerate(variables)]
    sums = reduce_all(reductions, assembly.plan.update)
    return [SummedGradient(variable, tuple(copies)) for variable, copies in zip(variables, sums, strict=True)]


def _in_order_of_backprop(assembly: Assembly) -> list[GraphVariable]:
    """Return the variables that get a gradient, those first whose gradient is ready first.

    Left out are statistics, and weights that the loss does not depend on.
    """
    template = assembly.towers[0].template
    position = {node.name: at for at, node in enumerate(template.graph_def.node)}
    names = [
        name
        for name in template.gradients
        if all(name in tower.template.gradients for tower in assembly.towers)
    ]
    names.sort(key=lambda name: position[template.gradients[name].values.partition(":")[0]])
    return [assembly.variables[name] for name in names]


def _reduction(assembly: Assembly, variable: GraphVariable, number: int) -> Reduction:
    homes = [_home_of(assembly, tower, variable.name) for tower in assembly.towers]
    return Reduction(
        variable.name,
        [tower.gradient(variable.name) for tower in assembly.towers],
        homes,
        _destinations(assembly, variable, homes[number % len(homes)]),
        assembly.ledger,
        number,
    )


def _home_of(assembly: Assembly, tower: StampedTower, weight: str) -> Placed:
    """Return where a tower has made a gradient."""
    inner = tower.template.gradients[weight].values
    placed = assembly.ledger.entries[tower.tensor(inner).op.name].placed
    return Placed(placed.device, following(inner.partition(":")[0], placed))


def _destinations(assembly: Assembly, variable: GraphVariable, home: Placed) -> Sequence[Placed]:
    """Return where a sum is wanted: where the variable is updated, or first of all with a clone (`home`).

    The latter where a worker sends its gradients to others: the sum of all its clones is sent once.
    """
    if assembly.plan.worker is not None:
        return [home]
    if variable.replicated:
        return [variable.beside(copy) for copy in range(len(variable.copies))]
    return [assembly.rulebook.updates(variable.placement)]


def regularize_gradients(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Add the gradients of regularizers, once per step however many clones there are."""
    return [
        evolve(each, copies=tuple(_regularized(assembly, each, copy) for copy in range(len(each.copies))))
        for each in gradients
    ]


def _regularized(assembly: Assembly, gradient: SummedGradient, copy: int) -> Any:
    variable = gradient.variable
    place = assembly.ledger.place(variable.beside(copy), "update")
    with place, tf.name_scope(f"{assembly.scope}/{copy_name(variable, copy)}/"):
        return add_regularization(variable, copy, gradient.copies[copy])


def copy_name(variable: GraphVariable, copy: int) -> str:
    """Return the name of a copy of a variable; copy 0 has the variable's own."""
    return f"{variable.name}/replica_{copy}" if copy else variable.name
