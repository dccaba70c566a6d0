"""The part of a graph that a training step runs, as records: its ops, and the tensors between them."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Edge:
    """A tensor from one op to another.

    Attributes:
        source: The name of the op that makes it.
        target: The name of the op that uses it.
        tensor: Its name.
        bytes: Its size, or None if that is not known before a step.
        handle: Whether it only refers to a resource, so that it is never sent to another device.
    """

    source: str
    target: str
    tensor: str
    bytes: int | None
    handle: bool = False


@frozen
class StepGraph:
    """The part of a graph that a step runs.

    Attributes:
        ops: The names of the ops.
        edges: The tensors between them.
    """

    ops: frozenset[str] = field(repr=False)
    edges: tuple[Edge, ...] = field(repr=False)
