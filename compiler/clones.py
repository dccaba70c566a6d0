"""How many clones there are, and how many examples each takes."""

from __future__ import annotations

from compiler.placement.rules import Rulebook
from compiler.topology import Topology
from dsl import ir

DEFAULT_BATCH = 32


def clone_count(spec: ir.Spec, topology: Topology) -> int:
    """Return how many towers there are: `clones.count`, or one per device (or group) given to clones."""
    if spec.clones.count is not None:
        return spec.clones.count
    return len(Rulebook(spec.place.rules, topology).clone_groups()[0])


def batches(clones: ir.Clones, count: int, micro_batches: int) -> tuple[int, ...]:
    """Return the examples of each clone in a step, or in each of its `micro_batches` if there are several.

    The checks have seen to it that a global batch comes out even.
    """
    if isinstance(clones.batch, tuple):
        return clones.batch
    if clones.batch is None and clones.global_batch is not None:
        return (clones.global_batch // (count * micro_batches),) * count
    return (clones.batch or DEFAULT_BATCH,) * count
