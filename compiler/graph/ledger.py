"""The ledger: the device, the role and the clone of every op of the graph, and the reason for its device.

Ops that this package makes are created under `Ledger.place`, whose device function records each op. Stamped
ops are recorded by name. An op without a record fails the compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from attrs import Factory, define, field, frozen

from compiler.graph.adapters.tensorflow_private import set_device
from compiler.graph.draft import Draft
from compiler.plan import Plan
from compiler.reasons import Placed
from compiler.step.record import Role
from compiler.topology import Device


@frozen
class Entry:
    """The record of one op.

    Attributes:
        placed: The device that was asked for, and the reason.
        role: What the op is for.
        clone: The number of the clone, or None if the op belongs to no tower.
    """

    placed: Placed
    role: Role
    clone: int | None = None

    @property
    def device(self) -> Device:
        """The device that was asked for."""
        return self.placed.device


RoleOf = Role | Callable[[Any], Role]


@define
class Ledger:
    """The records of a graph.

    Attributes:
        plan: The plan, which gives the names of the devices in sessions.
        entries: The records by op name.
        draft: The step, of which the graph is made.
    """

    plan: Plan = field(repr=False)
    entries: dict[str, Entry] = field(factory=dict, repr=False)
    draft: Draft = field(default=Factory(lambda self: Draft(self.plan), takes_self=True), repr=False)

    @contextmanager
    def place(self, placed: Placed, role: RoleOf, clone: int | None = None) -> Iterator[None]:
        """Create ops on a device and record them; an inner `place` overrides an outer one.

        Args:
            placed: The device, and the reason for it.
            role: What the ops are for, or a function of the op if one call of a library makes ops of several
                roles.
            clone: The number of the clone, or None if the ops belong to no tower.
        """
        name = self.plan.tensorflow_device(placed.device)
        graph = tf.compat.v1.get_default_graph()

        def choose(op: Any) -> str:
            if op.graph is not graph:  # the body of a function, which runs where the function is called
                return str(op.device)
            if op.name not in self.entries:
                self.enter(op.name, Entry(placed, role if isinstance(role, str) else role(op), clone))
            return op.device or name

        stand_ins, entered = self.draft.stand_ins, len(self.entries)
        ops, before = graph.num_operations(), len(stand_ins)
        with tf.compat.v1.device(choose):
            yield
        made = graph.num_operations() - ops - (len(stand_ins) - before)
        if made > len(self.entries) - entered:
            # tf.gradients, iterators and assignments of initial values pass device functions by
            for op in graph.get_operations()[ops:]:
                if op.name not in stand_ins:
                    set_device(op, choose(op))

    def enter(self, op_name: str, entry: Entry) -> None:
        """Record an op.

        Args:
            op_name: The name of the op in the graph.
            entry: Where the op is, what it is for, and why it is there. It replaces an earlier entry of that
                name.
        """
        self.entries[op_name] = entry
