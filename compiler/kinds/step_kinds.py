"""The ops of a step of clones that are alike, and the tensors between them, by kinds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from attrs import field, frozen

from compiler.kinds.grid import NOWHERE, MapGrid, Spot, which
from compiler.kinds.templates import Template
from compiler.step.record import HANDLES
from compiler.step.step import Step

Member = tuple[int, int]
"""The task of one thing of a kind, and the clone on it; 0 for what is of none."""


@frozen
class StepOpKind:
    """Ops of a step that are alike.

    Attributes:
        name: The name of each.
        device: The name of the device of each.
        spot: Their place, with 1 for all tasks or clones but the first.
        clone: The number of its clone, if it is an op by itself.
    """

    name: Template
    device: Template
    spot: Spot = NOWHERE
    clone: int | None = None

    def member(self, host: int, group: int) -> Member:
        """Return which of the ops there is for a task and a clone."""
        return host if self.spot.host else 0, group if self.spot.group else 0


@frozen
class EdgeKind:
    """Tensors between ops that are alike.

    Attributes:
        source: The number of the kind of ops that make them.
        target: The number of the kind of ops that use them.
        spot: The place of both ends.
        tensor: The name of each.
        bytes: The size of each, or None if it is not known before a step, or if nothing is sent to another
            device.
        handle: Whether they only refer to a resource, so that they are never sent to another device.
    """

    source: int
    target: int
    spot: Spot
    tensor: Template
    bytes: int | None
    handle: bool

    def members(self, grid: MapGrid) -> Iterator[Member]:
        """Yield the task and the clone of each."""
        return product(which(self.spot.host, grid.hosts), which(self.spot.group, grid.groups))


@frozen
class StepKinds:
    """The ops of a step of clones that are alike, and the tensors between them.

    Attributes:
        grid: The grid of all clones.
        ops: The ops, in the order of the graph.
        edges: The tensors.
    """

    grid: MapGrid
    ops: tuple[StepOpKind, ...] = field(repr=False)
    edges: tuple[EdgeKind, ...] = field(repr=False)


_ALONE = MapGrid(None, "cpu", 1, 1, 1)


def step_kinds(step: Step) -> StepKinds:
    """Return the ops that a step runs, each by itself, and the tensors between them.

    A constant that several take says nothing of these, unless it is sent to them.
    """
    ops = step.run
    numbers = {op.name: at for at, op in enumerate(ops)}
    edges = (
        EdgeKind(
            numbers[tensor.op],
            target,
            NOWHERE,
            Template((tensor.name,)),
            0 if tensor.dtype in HANDLES else tensor.bytes,
            tensor.dtype in HANDLES,
        )
        for target, op in enumerate(ops)
        for tensor in op.inputs
        if tensor.value is None or ops[numbers[tensor.op]].device != op.device
    )
    return StepKinds(
        _ALONE,
        tuple(StepOpKind(Template((op.name,)), Template((op.device.ref,)), clone=op.clone) for op in ops),
        tuple(dict.fromkeys(edges)),
    )
