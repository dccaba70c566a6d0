"""The ledger: every op of a step with its place, its role and the reason for its place.

TensorFlow gets all ops at once, when a graph is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import set_device
from compiler.graph.nodes import import_nodes, write_nodes
from compiler.graph.step_records import edges_of
from compiler.plan import Plan
from compiler.reasons import Placed
from compiler.step.edges import Edges
from compiler.step.record import Entered, Entry, Op, Role, Tensor, Use
from compiler.step.writer import Names, StepWriter


@define
class Ledger:
    """The ops of a step.

    Attributes:
        plan: The plan, which gives the names of the devices in sessions.
        seed: The seed of random ops that have none of their own.
        written: The ops, and uses of fragments, in the order in which they were written.
    """

    plan: Plan = field(repr=False)
    seed: int | None = None
    written: list[Op | Use] = field(factory=list, repr=False)
    _entries: dict[str, Entered] = field(factory=dict, repr=False)
    _entered: int = 0  # how many of those that were written have entries
    _named: int = 0  # how many of them have names that nothing else gets
    _names: Names = field(factory=Names, repr=False)
    _constants: dict[Any, Tensor] = field(factory=dict, repr=False)

    def enter(self, op_name: str, entry: Entry) -> None:
        """Record an op.

        Args:
            op_name: The name of the op in the graph.
            entry: Where the op is, what it is for, and why it is there. It replaces an earlier entry of that
                name.
        """
        self._entries[op_name] = entry

    def writer(self, role: Role) -> StepWriter:
        """Return a writer of ops of the step; `role` is what they are for."""
        return StepWriter(role, self.unique, ops=self.written, constants=self._constants)

    @property
    def entries(self) -> Mapping[str, Entered]:
        """The place and the role of each op, by its name."""
        if self._entered < len(self.written):
            self._entries |= entries_of(self.written[self._entered :])
            self._entered = len(self.written)
        return self._entries

    @cached_property
    def edges(self) -> Edges:
        """All ops and the tensors between them, once everything is written."""
        return edges_of(self.written)

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        """All ops by name, once everything is written."""
        return dict(zip(self.edges.numbers, self.edges.ops, strict=True))

    def unique(self, name: str) -> str:
        """Return a name that nothing has yet: the wanted one, or one with a number after it."""
        if self._named < len(self.written):
            new = self.written[self._named :]
            self._named += len(new)
            for each in new:
                if isinstance(each, Op):
                    self._names.reserve((each.name,))
                else:
                    self._names.reserve(map(each.names.__getitem__, each.ops))
        return self._names(name)

    def names_since(self, begin: int) -> frozenset[str]:
        """Return the names of the ops that have been written since there were `begin` records."""
        return frozenset(entries_of(self.written[begin:]))

    def graph_def(self) -> Any:
        """Return everything that was written as a GraphDef, in the order in which it was."""
        whole = tf.Graph().as_graph_def()  # with the version of TensorFlow
        write_nodes(self.written, self.plan, whole)
        return whole

    def finish(self) -> tf.Graph:
        """Return a graph with everything that was written."""
        graph = tf.Graph()
        graph.seed = self.seed
        import_nodes(graph, self.graph_def())
        return graph

    @contextmanager
    def place(self, placed: Placed, role: Role) -> Iterator[None]:
        """Add ops to a finished graph, the default one, on a device, and record them.

        Args:
            placed: The device, and the reason for it.
            role: What the ops are for.
        """
        name, graph = self.plan.tensorflow_device(placed.device), tf.compat.v1.get_default_graph()

        def choose(op: Any) -> str:
            if op.graph is not graph:  # the body of a function, which runs where the function is called
                return str(op.device)
            self._entries.setdefault(op.name, Entry(placed, role))
            return op.device or name

        before = graph.num_operations()
        with tf.compat.v1.device(choose):
            yield
        for op in graph.get_operations()[before:]:
            if op.name not in self._entries:  # iterators pass device functions by
                set_device(op, choose(op))


def entries_of(written: Iterable[Op | Use]) -> dict[str, Entered]:
    """Return by the name of each op what says where it is, what it is for, and of which clone."""
    entries = dict[str, Entered]()
    for each in written:
        if isinstance(each, Op):
            entries[each.name] = each
            continue
        names, placed, role = [each.names[own] for own in each.ops], each.placed, each.role
        if isinstance(placed, Placed) and isinstance(role, str):
            entries.update(dict.fromkeys(names, Entry(placed, role, each.clone)))
            continue
        known = dict[tuple[int, Role], Entry]()  # by the identity of a place, which the use keeps alive
        for own, name in zip(each.ops, names, strict=True):
            key = id(each.place_of(own)), each.role_of(own)
            found = known.get(key)
            if found is None:
                found = known[key] = Entry(each.place_of(own), key[1], each.clone)
            entries[name] = found
    return entries
