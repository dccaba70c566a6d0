"""The parts of a graph under construction, which the functions that build it pass on to each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import define, evolve, field

from compiler.figures import gathered
from compiler.graph.ledger import Ledger
from compiler.graph.loss_scale import LossScale
from compiler.graph.optimizers import Optimizer, UpdateRules
from compiler.graph.stamp.sources import CutSource, WeightSource
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.variables.variables import GraphVariable, joined_source
from compiler.placement.rules import Rulebook
from compiler.plan import Plan
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.values import cut_value


@define
class Assembly:
    """The plan, ledger, variables and towers of one graph."""

    plan: Plan = field(repr=False)
    rulebook: Rulebook = field(repr=False)
    ledger: Ledger = field(repr=False)
    # The variables by name; a weight in pieces has one for each piece.
    variables: dict[str, GraphVariable] = field(repr=False)
    global_step: Any = field(repr=False)
    step_place: Placed = field(repr=False)
    # The update rule of each trainable weight, or None if the spec has no optimizer.
    rules: UpdateRules | None = field(default=None, repr=False)
    towers: list[StampedTower] = field(factory=list, repr=False)
    scope: str = "update"
    # The dynamic scale of the loss, or None if the precision needs none. With a scale, a step may be skipped.
    loss_scale: LossScale | None = field(default=None, repr=False)
    # A boolean tensor that says whether the step was applied. It is set when the update is built.
    applied: Tensor | None = field(default=None, repr=False)
    # The names of ops on the devices of other workers: the slots of the parts that these update.
    abroad: frozenset[str] = field(default=frozenset(), repr=False)
    # If workers have parts of gradients: returns the sums of the squares of those of whole weights, by
    # weight, from the sums that this worker has.
    squares_of_all: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] | None = field(
        default=None, repr=False
    )
    # By the name of a variable, the names of its reads for what a step reports. They end before the variable
    # changes, so that a report is of the weights that the step began with.
    score_reads: dict[str, list[str]] = field(factory=dict, repr=False)
    # The names of the ops that end before any weight or slot changes, whatever its gradient waits for.
    before_updates: Sequence[str] = field(default=(), repr=False)
    _given: dict[tuple[str, int], Sequence[Tensor]] = field(factory=dict, init=False, repr=False)
    _sources: dict[str, WeightSource | CutSource] = field(
        factory=dict, init=False, repr=False
    )  # of all clones

    @cached_property
    def _by_weight(self) -> Mapping[str, list[GraphVariable]]:
        return gathered((each.weight, each) for each in self.variables.values())

    def pieces_of(self, weight: str) -> list[GraphVariable]:
        """Return the variables of a weight: itself, or its pieces in order."""
        return self._by_weight[weight]

    def updated_of(self, weight: str) -> list[GraphVariable]:
        """Return what gradients of a weight are summed for: its variables, or the parts of its clones."""
        return [each for variable in self.pieces_of(weight) for each in variable.updated]

    def rule_of(self, variable: str) -> Optimizer:
        """Return the update rule of a trainable variable, or of a part of one."""
        assert self.rules is not None
        return self.rules.of(variable)

    def source_of(self, weight: str, clone: int) -> WeightSource | CutSource:
        """Return what a clone reads of a weight."""
        found = self._sources.get(weight)
        if found is None:
            pieces = self.pieces_of(weight)
            found = joined_source(pieces, [self._marked(each, each.source(clone)) for each in pieces])
            if not any(each.replicated for each in pieces):
                self._sources[weight] = found
        return found

    def evaluated(self, weight: str) -> WeightSource | CutSource:
        """Return what evaluation reads of a weight."""
        pieces = self.pieces_of(weight)
        if any(each.average is not None for each in self.updated_of(weight)):
            pieces = self.updated_of(weight)
        return joined_source(pieces, [self._marked(each, each.evaluated) for each in pieces])

    @cached_property
    def giving(self) -> Mapping[str, list[StampedTower]]:
        """The towers that give trained weights other values, by weight."""
        return gathered((weight, each) for each in self.towers for weight in each.template.given_weights)

    def given_value(self, variable: GraphVariable, clone: int = 0) -> Tensor | None:
        """Return the value that the model gives a trained weight before its gradient is applied, if it does.

        It is that of the first clone, so that all copies of the weight stay equal; copies that are trained
        separately get that of their own `clone`.
        """
        weight = variable.weight
        if weight not in self.giving:
            return None
        if (weight, clone) not in self._given:
            tower = self.giving[weight][clone]
            value = tower.record(tower.template.state_updates[weight])
            shards = [each.info.shard for each in self.pieces_of(weight) if each.info.shard is not None]
            scope, place = f"aggregate/{weight}/given_{clone}", self.ledger.entries[value.op].placed
            writer = self.ledger.writer("aggregate")
            found = cut_value(writer, scope, value, shards, place) if shards else [value]
            self._given[weight, clone] = found
        shard = variable.info.shard
        return self._given[weight, clone][0 if shard is None else shard.number]

    def _marked(self, variable: GraphVariable, source: WeightSource) -> WeightSource:
        """Return a source of a variable that says whether updates write rows of it, if its gradient is rows.

        A regularizer makes every gradient dense. What is sent to remote slots and back is the whole, as is
        what is joined from the parts of clones.
        """
        rule = self.rules.weights.get(variable.name) if self.rules is not None else None
        if rule is None or not rule.by_rows:
            return source
        updated = any(each is source.variable for each in variable.copies)
        sent = any(variable.slots_are_remote(copy) for copy in range(len(variable.copies)))
        whole = sent or bool(variable.parts) or variable.info.regularizer is not None
        return evolve(source, by_rows=updated and not whole)

    def alone(self, clone: int) -> Assembly:
        """Return the parts that concern one clone: its tower, and the variables that it uses.

        An update that is built from them is the update of a single tower.
        """
        variables = {name: each.alone(clone) for name, each in self.variables.items()}
        return evolve(
            self,
            towers=[self.towers[clone]],
            variables=variables,
            scope=f"update/clone_{clone}",
        )

    @property
    def shares(self) -> tuple[float, ...]:
        """The factor on each clone's loss: its part (0 to 1) of the batch for a mean, 1 for a sum.

        If each clone applies its gradients by itself, its own batch is the whole batch, so the factor is 1.
        """
        separate = self.plan.update.mode == "local" or self.plan.clones_update_alone
        if self.plan.update.reduce == "sum" or separate:
            return (1.0,) * len(self.plan.towers)
        return tuple(self.plan.share(tower) for tower in self.plan.towers)
