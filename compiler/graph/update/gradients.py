"""Gradients of a step on their way from the towers to the variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.aggregate import AGGREGATIONS
from compiler.graph.aggregate.base import Gradient, Reduction
from compiler.graph.assembly import Assembly
from compiler.graph.numerics.regularize import add_regularization
from compiler.graph.variables import GraphVariable
from compiler.plan import Placed


@frozen
class SummedGradient:
    """The gradient of a variable over all clones, for each copy of the variable."""

    variable: GraphVariable
    copies: tuple[Gradient, ...]


def sum_gradients(assembly: Assembly) -> list[SummedGradient]:
    """Sum every variable's gradient over the towers, where it is wanted."""
    reduce = AGGREGATIONS[assembly.plan.update.aggregate.name]
    summed = []
    for variable in assembly.variables.values():
        if not all(variable.name in tower.template.gradients for tower in assembly.towers):
            continue  # a statistic, or a weight that the loss does not depend on
        reduction = Reduction(
            variable.name,
            [tower.gradient(variable.name) for tower in assembly.towers],
            [tower.tower for tower in assembly.towers],
            _destinations(assembly, variable),
        )
        summed.append(SummedGradient(variable, tuple(reduce(reduction, assembly.ledger))))
    return summed


def _destinations(assembly: Assembly, variable: GraphVariable) -> Sequence[Placed]:
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
    with place, tf.name_scope(f"update/{copy_name(variable, copy)}/"):
        return add_regularization(variable, copy, gradient.copies[copy])


def copy_name(variable: GraphVariable, copy: int) -> str:
    """Return the name of a copy of a variable; copy 0 has the variable's own."""
    return f"{variable.name}/replica_{copy}" if copy else variable.name
