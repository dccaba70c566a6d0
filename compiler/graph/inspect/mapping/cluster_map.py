"""The placement map of a whole cluster whose workers have graphs of their own, from that of the chief.

Workers with the same clones have the same graph, apart from the number of their task and a few more ops in
that of the chief. The map lists the ops of the chief's graph. Its counts and sums are of all workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from compiler.graph.inspect.step.transfers import list_transfers
from compiler.mapping.records import MapClone, MapDevice, MapOp, MapTransfer, MapWorker, PlacementMap
from compiler.topology import Device, Host

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Worker, WorkerPlan


def widen(
    own: PlacementMap,
    compiled: CompiledGraph,
    plan: WorkerPlan,
    transfers: tuple[MapTransfer, ...],
) -> PlacementMap:
    """Return the map of all tasks.

    Args:
        own: The map of the chief's graph.
        compiled: The graph of the chief.
        plan: The plan of the chief.
        transfers: What a step of all tasks sends.
    """
    worker = plan.worker
    hosts = [tower[0].device.host for tower in worker.everyone]
    return evolve(
        own,
        devices=_devices(own, compiled, plan, hosts),
        clones=tuple(
            MapClone(tower.number, tower.scope, tuple(each.ref for each in tower.devices), tower.batch)
            for tower in plan.all_towers
        ),
        transfers=transfers,
        workers=tuple(_worker(worker, index) for index in range(worker.count)),
    )


def _worker(worker: Worker, index: int) -> MapWorker:
    numbers = tuple(tower.number for tower in worker.everyone[index])
    return MapWorker(worker.task(index), numbers, index == worker.index)


def _devices(
    own: PlacementMap, compiled: CompiledGraph, plan: WorkerPlan, hosts: list[Host]
) -> tuple[MapDevice, ...]:
    """Return the devices: other workers' have the figures of the chief's, servers' those of all workers."""
    rows = {each.ref: each for each in own.devices}
    twins, shared = plan.twins, _ops_of_other_worker(own.ops, compiled)
    found = []
    for device in plan.topology.devices:
        row = rows[device.ref]
        twin = twins.get(device.ref)
        if twin is not None:
            found.append(evolve(rows[twin], ref=row.ref, device=row.device))
        elif device.host == plan.worker.host:
            found.append(row)
        else:
            found.append(evolve(row, ops=row.ops + shared.get(device.ref, 0) * (len(hosts) - 1)))
    return tuple(found)


def _ops_of_other_worker(ops: Iterable[MapOp], compiled: CompiledGraph) -> Mapping[str, int]:
    """Count the ops on each device of the graph of a worker that is not the chief."""
    exchange = compiled.exchange
    chief = exchange.chief_ops if exchange is not None else frozenset[str]()
    counts: dict[str, int] = {}
    for op in ops:
        if op.name not in chief:
            counts[op.requested] = counts.get(op.requested, 0) + 1
    return counts


def of_all_workers(
    own: tuple[MapTransfer, ...],
    compiled: CompiledGraph,
    plan: WorkerPlan,
    sizes: Sequence[Mapping[str, int]] | None,
) -> tuple[MapTransfer, ...]:
    """Return the transfers of a step of the chief, and those of a step of each other worker.

    Args:
        own: The transfers of a step of the chief.
        compiled: The graph of the chief.
        plan: The plan of the chief.
        sizes: For each worker the bytes of tensors whose sizes depend on the examples, if they are known.
    """
    worker = plan.worker
    others = [index for index in range(worker.count) if index != worker.index]
    known = {each.ref: each for each in plan.topology.devices}
    if sizes is None:
        of_one = list_transfers(compiled, of_chief=False)
        steps = [of_one for _ in others]
    else:
        steps = [list_transfers(compiled, of_chief=False, sizes=sizes[index]) for index in others]
    found = list(own)
    for index, step in zip(others, steps, strict=True):
        host = worker.everyone[index][0].device.host
        found += [_moved(each, known, worker.host, host) for each in step]
    order = {ref: at for at, ref in enumerate(known)}
    return tuple(sorted(_joined(found), key=lambda each: (order[each.from_device], order[each.to_device])))


def _moved(transfer: MapTransfer, known: Mapping[str, Device], own: Host, host: Host) -> MapTransfer:
    def ref(name: str) -> str:
        device = known[name]
        return evolve(device, job=host[0], task=host[1]).ref if device.host == own else name

    return evolve(transfer, from_device=ref(transfer.from_device), to_device=ref(transfer.to_device))


def _joined(transfers: Iterable[MapTransfer]) -> Iterable[MapTransfer]:
    """Add up transfers between the same devices, as several graphs have them between two servers."""
    found: dict[tuple[str, str], MapTransfer] = {}
    for each in transfers:
        pair = each.from_device, each.to_device
        before = found.get(pair)
        found[pair] = (
            each
            if before is None
            else evolve(
                before,
                tensors=before.tensors + each.tensors,
                bytes=before.bytes + each.bytes,
                bytes_unknown=before.bytes_unknown + each.bytes_unknown,
            )
        )
    return found.values()
