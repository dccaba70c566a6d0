"""What a training step runs, as records: which ops, and which tensors go from op to op."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Edge:
    """A tensor from one op to another, by their names.

    `bytes` is None if the size is not known before a step. A `handle` only refers to a resource and is never
    sent to another device.
    """

    source: str
    target: str
    tensor: str
    bytes: int | None
    handle: bool = False


@frozen
class StepGraph:
    """The ops that a step runs, and the tensors between them."""

    ops: frozenset[str] = field(repr=False)
    edges: tuple[Edge, ...] = field(repr=False)
