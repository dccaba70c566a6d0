"""The ledger: for every op of the graph its device, its role, its clone, and what put it there.

Ops of ours are made under `Ledger.place`, whose device function enters each op as it is created; stamped ops
are entered by name. An op that is in no entry is a stray, which the compile refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.adapters.tensorflow_private import set_device
from compiler.graph.tower.template import Role
from compiler.plan import Plan
from compiler.reasons import Placed
from compiler.topology import Device


@frozen
class Entry:
    """Where an op was asked to be, and why. `clone` is None for what belongs to no tower."""

    placed: Placed
    role: Role
    clone: int | None = None

    @property
    def device(self) -> Device:
        """The device asked for."""
        return self.placed.device


RoleOf = Role | Callable[[Any], Role]


@define
class Ledger:
    """Entries by op name, and the devices' names in this graph."""

    plan: Plan = field(repr=False)
    entries: dict[str, Entry] = field(factory=dict, repr=False)

    @contextmanager
    def place(self, placed: Placed, role: RoleOf, clone: int | None = None) -> Iterator[None]:
        """Put the ops made inside on a device and enter them; scopes inside this one come first.

        `role` may be a function of the op where one library call makes ops of several roles.
        """
        name = self.plan.tensorflow_device(placed.device)
        graph = tf.compat.v1.get_default_graph()

        def choose(op: Any) -> str:
            if op.graph is not graph:  # the body of a function, which runs where the function is called
                return str(op.device)
            if op.name not in self.entries:
                self.enter(op.name, Entry(placed, role if isinstance(role, str) else role(op), clone))
            return op.device or name

        ops, entered = graph.num_operations(), len(self.entries)
        with tf.compat.v1.device(choose):
            yield
        if graph.num_operations() - ops > len(self.entries) - entered:
            # tf.gradients, iterators and assignments of initial values pass device functions by
            for op in graph.get_operations()[ops:]:
                set_device(op, choose(op))

    def enter(self, op_name: str, entry: Entry) -> None:
        """Keep where an op was put."""
        self.entries[op_name] = entry
