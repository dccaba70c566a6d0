"""Lay out the towers: how many, on which devices, under which scope, with how many examples each."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from compiler.clones import batches, clone_count
from compiler.placement.rules import Rulebook
from compiler.plan import Tower
from compiler.topology import Host, Topology
from dsl import ir


def lay_out_towers(spec: ir.Spec, topology: Topology) -> tuple[Tower, ...]:
    """Give each clone a device or group, in order and wrapping round; a single clone has no scope."""
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
