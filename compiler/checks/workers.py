"""Check that each worker can do its part of a step if every worker has a graph of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.compatibility import replication_of
from compiler.topology import Host, Topology
from compiler.towers import lay_out_towers, workers_of
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors
from dsl.ir.place import PARAMETER_SERVER

OF_EVERY_GRAPH = {"inputs", "ops", "summaries", "evaluation"}


def workers_are_whole(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report tasks without a clone, clones on parameter servers, and too many backup workers."""
    if replication_of(spec) == "in_graph":
        return
    workers = workers_of(lay_out_towers(spec, topology), topology)
    tasks = {device.host for device in topology.devices if device.job != PARAMETER_SERVER}
    span = next((each.span for each in spec.place.rules if each.selector.role == "clones"), None)
    busy = {host for host, _ in workers}
    for job, task in sorted(tasks - busy, key=str):
        yield errors.worker_without_clones(
            span or spec.clones.span or spec.devices.span, task=f"{job}[{task}]"
        )
    for job, task in sorted(busy - tasks, key=str):
        yield errors.clones_on_server(span, task=f"{job}[{task}]")
    sizes = [sum(tower.batch for tower in towers) for _, towers in workers]
    if spec.update.backup >= len(workers):
        yield errors.too_many_backups(
            spec.update.span_of("backup"),
            backup=spec.update.backup,
            workers=len(workers),
            most=max(len(workers) - 1, 0),
        )
    elif spec.update.backup and len(set(sizes)) > 1:
        yield errors.uneven_workers(spec.update.span_of("backup"), batches=", ".join(map(str, sizes)))
    yield from _rules_for_one_worker(spec, topology, [host for host, _ in workers])


def _rules_for_one_worker(spec: ir.Spec, topology: Topology, hosts: Sequence[Host]) -> Iterator[Diagnostic]:
    """Report rules that put something of every worker's graph onto devices which are not each worker's own.

    Variables, their slots and their updates are shared, and may be anywhere.
    """
    for rule in spec.place.rules:
        if rule.selector.role not in OF_EVERY_GRAPH or not isinstance(rule.target, ir.DeviceSet):
            continue
        devices = topology.resolve_set(rule.target)
        if any(each.job == PARAMETER_SERVER for each in devices):
            continue
        for host in hosts:
            if devices and not any(each.host == host for each in devices):
                ref = f"{host[0]}[{host[1]}]"
                yield errors.other_workers_device(
                    rule.target.span or rule.span, worker=ref, device=devices[0].ref
                )
                break
