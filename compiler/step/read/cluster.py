"""The placement map of a whole cluster whose workers have graphs of their own, from that of the chief.

Workers with the same clones have the same graph, apart from the number of their task and a few more ops in
that of the chief. The map lists the ops of the chief's graph. Its counts and sums are of all workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve, frozen

from compiler.mapping.records import MapClone, MapDevice, MapTransfer, MapWorker, PlacementMap
from compiler.plan import Worker, WorkerPlan
from compiler.step.read.transfers import list_transfers
from compiler.step.step import Step
from compiler.topology import Host


@frozen
class HeldBytes:
    """The bytes of variables that a device holds, of three kinds."""

    variables: int = 0
    slots: int = 0
    others: int = 0


def widen(
    own: PlacementMap,
    step: Step,
    plan: WorkerPlan,
    transfers: tuple[MapTransfer, ...],
    shared: Mapping[str, HeldBytes],
) -> PlacementMap:
    """Return the map of all tasks.

    Args:
        own: The map of the chief's graph.
        step: The step of the chief.
        plan: The plan of the chief.
        transfers: What a step of all tasks sends.
        shared: What devices of the chief hold for all workers, by name.
    """
    worker = plan.worker
    hosts = [tower[0].device.host for tower in worker.everyone]
    return evolve(
        own,
        devices=_devices(own, step, plan, hosts, shared),
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
    own: PlacementMap,
    step: Step,
    plan: WorkerPlan,
    hosts: Sequence[Host],
    shared: Mapping[str, HeldBytes],
) -> tuple[MapDevice, ...]:
    """Return the devices: other workers' have what the chief's have for the chief alone.

    What workers share is where it is, with the ops that each of them has there. The tensors of a step are not
    told apart, so other workers' devices have at most those of the chief's.
    """
    rows, twins = {each.ref: each for each in own.devices}, plan.twins
    staying = [op for op in step.ops.values() if not op.own]
    each_has = Counter(op.device.ref for op in staying if op.name not in step.ends.only_chief)
    of_all = Counter(op.device.ref for op in staying)
    found = []
    for device in plan.topology.devices:
        row = rows[device.ref]
        row = evolve(row, ops=row.ops + each_has[device.ref] * (len(hosts) - 1))
        twin = twins.get(device.ref)
        if twin is not None:
            row = _with_own(row, rows[twin], of_all[twin], shared.get(twin, HeldBytes()))
        found.append(row)
    return tuple(found)


def _with_own(row: MapDevice, twin: MapDevice, staying: int, shared: HeldBytes) -> MapDevice:
    """Return a device of another worker with what the chief's has for the chief alone.

    Args:
        row: The device, with what workers share there.
        twin: The device of the chief.
        staying: How many ops it has for all workers.
        shared: What it holds for all workers.
    """
    parts = {
        "variable_bytes": twin.variable_bytes - shared.variables,
        "slot_bytes": twin.slot_bytes - shared.slots,
        "other_bytes": twin.other_bytes - shared.others,
        "step_bytes": twin.step_bytes,
    }
    sums = {name: getattr(row, name) + each for name, each in parts.items() if each is not None}
    memory = None if twin.step_bytes is None else sum(sums.values())
    largest = twin.largest or row.largest
    return evolve(row, ops=row.ops + twin.ops - staying, **sums, memory_bytes=memory, largest=largest)


def of_all_workers(
    own: tuple[MapTransfer, ...],
    step: Step,
    plan: WorkerPlan,
    sizes: Sequence[Mapping[str, int]] | None,
) -> tuple[MapTransfer, ...]:
    """Return the transfers of a step of the chief, and those of a step of each other worker.

    Args:
        own: The transfers of a step of the chief.
        step: The step of the chief.
        plan: The plan of the chief.
        sizes: For each worker the bytes of tensors whose sizes depend on the examples, if they are known.
    """
    worker = plan.worker
    others = [index for index in range(worker.count) if index != worker.index]
    hosts = {index: worker.everyone[index][0].device.host for index in others}
    alike = [index for index in others if sizes is None and hosts[index] not in step.homes]
    found = list(own)
    for index in others:
        if index not in alike:
            of_worker = None if sizes is None else sizes[index]
            found += list_transfers(step, of_worker=hosts[index], sizes=of_worker)
    if alike:
        first = hosts[alike[0]]
        of_first = list_transfers(step, of_worker=first)
        found += [_moved(each, plan, first, hosts[index]) for index in alike for each in of_first]
    order = {each.ref: at for at, each in enumerate(plan.topology.devices)}
    return tuple(sorted(_joined(found), key=lambda each: (order[each.from_device], order[each.to_device])))


def _moved(transfer: MapTransfer, plan: WorkerPlan, first: Host, host: Host) -> MapTransfer:
    """Return a transfer of another worker's step as a further one has it."""
    known = {each.ref: each for each in plan.topology.devices}

    def ref(name: str) -> str:
        device = known[name]
        return evolve(device, job=host[0], task=host[1]).ref if device.host == first else name

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
