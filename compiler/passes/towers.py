"""Lay out the towers: how many, on which devices, under which scope, with how many examples each."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from compiler.plan import Tower
from compiler.rules import Rulebook
from compiler.topology import Host, Topology
from dsl import ir

DEFAULT_BATCH = 32


def clone_count(spec: ir.Spec, topology: Topology) -> int:
    """Return how many towers there are: `clones.count`, or one per device (or group) given to clones."""
    if spec.clones.count is not None:
        return spec.clones.count
    return len(Rulebook(spec.place.rules, topology).clone_groups()[0])


def batches(clones: ir.Clones, count: int, rounds: int) -> tuple[int, ...]:
    """Return the examples of each clone in a step, or in each of its `rounds` where there are several.

    The checks have seen to it that a global batch comes out even.
    """
    if isinstance(clones.batch, tuple):
        return clones.batch
    if clones.batch is None and clones.global_batch is not None:
        return (clones.global_batch // (count * rounds),) * count
    return (clones.batch or DEFAULT_BATCH,) * count


def lay_out_towers(spec: ir.Spec, topology: Topology) -> tuple[Tower, ...]:
    """Give each clone a device or group, in order and wrapping round; a single clone has no scope."""
    groups, why = Rulebook(spec.place.rules, topology).clone_groups()
    count = clone_count(spec, topology)
    return tuple(
        Tower(
            index=index,
            scope=f"clone_{index}" if count > 1 else "",
            devices=groups[index % len(groups)],
            batch=batch,
            why=why,
        )
        for index, batch in enumerate(batches(spec.clones, count, spec.update.accumulate))
    )


def towers_of_worker(towers: Sequence[Tower], host: Host) -> tuple[Tower, ...]:
    """Return the towers on one host, for a graph of their own: they are counted among themselves alone."""
    own = [tower for tower in towers if tower.device.host == host]
    return tuple(
        evolve(tower, index=at, scope=f"clone_{at}" if len(own) > 1 else "") for at, tower in enumerate(own)
    )


def workers_of(towers: Sequence[Tower], topology: Topology) -> tuple[tuple[Host, tuple[Tower, ...]], ...]:
    """Return the tasks that have towers, in the order of declaration, with the towers of each."""
    hosts = dict.fromkeys(device.host for device in topology.devices)
    found = ((host, towers_of_worker(towers, host)) for host in hosts)
    return tuple((host, own) for host, own in found if own)
