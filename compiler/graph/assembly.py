"""The parts of a graph under construction, handed from one builder to the next."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.ledger import Ledger
from compiler.graph.optimizers import Optimizer
from compiler.graph.stamp import StampedTower
from compiler.graph.variables import GraphVariable
from compiler.plan import Placed, Plan
from compiler.rules import Rulebook


@define
class Assembly:
    """Plan, ledger, variables and towers of one graph."""

    plan: Plan = field(repr=False)
    graph: tf.Graph = field(repr=False)
    rulebook: Rulebook = field(repr=False)
    ledger: Ledger = field(repr=False)
    variables: dict[str, GraphVariable] = field(repr=False)
    global_step: Any = field(repr=False)
    step_place: Placed = field(repr=False)
    optimizer: Optimizer | None = field(default=None, repr=False)
    towers: list[StampedTower] = field(factory=list, repr=False)

    def read_step(self) -> tf.Tensor:
        """Return a fresh read of the global step on its own device (inside a `place`)."""
        return tf.raw_ops.ReadVariableOp(resource=self.global_step.handle, dtype=tf.int64)

    @property
    def shares(self) -> tuple[float, ...]:
        """What each clone's loss counts in a step: its part of the global batch for a mean, one for a sum."""
        if self.plan.update.reduce == "sum":
            return (1.0,) * len(self.plan.towers)
        return tuple(tower.batch / self.plan.global_batch for tower in self.plan.towers)
