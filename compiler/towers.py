"""The towers of a spec: their number, their devices, their name scopes and the examples of each."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from compiler.placement.rules import Rulebook
from compiler.plan import Tower
from compiler.topology import Host, Topology
from dsl import ir

DEFAULT_BATCH = 32
"""The examples of a clone in a step if the spec does not say how many."""


def clone_count(spec: ir.Spec, topology: Topology) -> int:
    """Return the number of clones: `clones.count`, or one for each device or group for clones."""
    if spec.clones.count is not None:
        return spec.clones.count
    return len(Rulebook(spec.place.rules, topology).clone_groups()[0])


def batches(clones: ir.Clones, count: int, micro_batches: int) -> tuple[int, ...]:
    """Return the examples of each clone in one micro-batch.

    Args:
        clones: The block `clones` of a spec.
        count: The number of clones. The checks have found that a global batch is a multiple of it.
        micro_batches: The number of micro-batches in a step.
    """
    if isinstance(clones.batch, tuple):
        return clones.batch
    if clones.batch is None and clones.global_batch is not None:
        return (clones.global_batch // (count * micro_batches),) * count
    return (clones.batch or DEFAULT_BATCH,) * count


def lay_out_towers(spec: ir.Spec, topology: Topology) -> tuple[Tower, ...]:
    """Return the towers of a spec.

    Clones are placed on the devices or groups in order, beginning again with the first after the last. A
    single tower has no name scope.
    """
    groups, reason = Rulebook(spec.place.rules, topology).clone_groups()
    count = clone_count(spec, topology)
    return tuple(
        Tower(
            index=index,
            scope=f"clone_{index}" if count > 1 else "",
            devices=groups[index % len(groups)],
            batch=batch,
            reason=reason,
        )
        for index, batch in enumerate(batches(spec.clones, count, spec.update.accumulate))
    )


def towers_of_worker(towers: Sequence[Tower], host: Host) -> tuple[Tower, ...]:
    """Return the towers on one host for a graph of their own, in which they are numbered from 0."""
    own = [tower for tower in towers if tower.device.host == host]
    return tuple(
        evolve(tower, index=at, scope=f"clone_{at}" if len(own) > 1 else "") for at, tower in enumerate(own)
    )


def workers_of(towers: Sequence[Tower], topology: Topology) -> tuple[tuple[Host, tuple[Tower, ...]], ...]:
    """Return the tasks that have towers, in the order in which they are declared, with the towers of each."""
    own: dict[Host, list[Tower]] = {device.host: [] for device in topology.devices}
    for tower in towers:
        own[tower.device.host].append(tower)
    return tuple((host, towers_of_worker(found, host)) for host, found in own.items() if found)
