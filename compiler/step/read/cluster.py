"""The placement map of a whole cluster whose workers have graphs of their own, from that of the chief.

Workers with the same clones have the same graph, apart from the number of their task and a few more ops in
that of the chief. The map lists the ops of the chief's graph. Its counts and sums are of all workers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from attrs import evolve

from compiler.mapping.records import MapClone, MapDevice, MapTensor, MapTransfer, MapWorker, PlacementMap
from compiler.plan import Worker, WorkerPlan
from compiler.step.read.held import held_by_device
from compiler.step.read.transfers import LARGEST, list_transfers
from compiler.step.record import ITEM_BYTES, Tensor
from compiler.step.step import Step
from compiler.topology import Device, Host


def widen(
    own: PlacementMap, step: Step, plan: WorkerPlan, transfers: tuple[MapTransfer, ...]
) -> PlacementMap:
    """Return the map of all tasks."""
    worker = plan.worker
    return evolve(
        own,
        devices=tuple(_devices(own, step, plan)),
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


def _devices(own: PlacementMap, step: Step, plan: WorkerPlan) -> Iterator[MapDevice]:
    """Yield the devices: other workers' have what the chief's have for the chief alone.

    What workers share is where it is, with the ops that each of them has there. The tensors of a step are not
    told apart, so other workers' devices have at most those of the chief's.
    """
    rows, twins = {each.ref: each for each in own.devices}, plan.twins
    own_ops = Counter(op.device.ref for op in step.ops.values() if op.own)
    of_each = Counter(
        op.device.ref
        for op in step.ops.values()
        if not op.own and op.name not in step.ends.only_chief and op.name not in step.abroad
    )
    queues = Counter(  # of messages from other workers: each is a queue, and what fills it
        _cpu(plan, each.target).ref
        for each in step.crossings
        if each.source != plan.worker.index
        for _op in range(2)
    )
    held, parts = held_by_device(step, own=True), _held_by_parts(step)
    for device in plan.topology.devices:
        row = rows[device.ref]
        row = evolve(row, ops=row.ops + of_each[device.ref] * (plan.worker.count - 1) + queues[device.ref])
        twin = twins.get(device.ref)
        if twin is not None:
            own_held = Counter(held[twin])
            own_held.subtract(parts[twin])
            own_held.update(parts[device.ref])
            row = _with_own(row, rows[twin], own_ops[twin], own_held)
        yield row


def _held_by_parts(step: Step) -> Mapping[str, Counter[str]]:
    """Return the bytes of the parts that workers update and of their slots, by device and kind."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for variable in step.variables.values() if step.ends.shared else ():
        for part in variable.placement.parts:
            size = ITEM_BYTES[variable.placement.info.dtype] * prod(part.shard.shape)
            found[part.device.ref]["other"] += size
        for slot in variable.slots if variable.placement.parts else ():
            found[slot.device.ref]["slot"] += slot.bytes
    return found


def _with_own(row: MapDevice, twin: MapDevice, ops: int, held: Mapping[str, int]) -> MapDevice:
    """Return a device of another worker with what the chief's has for the chief alone.

    Args:
        row: The device, with what workers share there.
        twin: The device of the chief.
        ops: How many ops it has for the chief alone.
        held: The bytes of variables that it holds for the chief alone, by their kinds.
    """
    row = evolve(
        row,
        ops=row.ops + ops,
        variable_bytes=row.variable_bytes + held["variable"],
        slot_bytes=row.slot_bytes + held["slot"],
        other_bytes=row.other_bytes + held["other"],
        largest=twin.largest or row.largest,
    )
    if row.step_bytes is None or twin.step_bytes is None:
        return row
    step = row.step_bytes + twin.step_bytes
    return evolve(
        row, step_bytes=step, memory_bytes=row.variable_bytes + row.slot_bytes + row.other_bytes + step
    )


def of_all_workers(
    own: tuple[MapTransfer, ...],
    step: Step,
    plan: WorkerPlan,
    sizes: Sequence[Mapping[str, int]] | None,
) -> tuple[MapTransfer, ...]:
    """Return the transfers of a step of the chief, and those of a step of each other worker.

    Args:
        sizes: For each worker the bytes of tensors whose sizes depend on the examples, if they are known.
    """
    worker = plan.worker
    others = [index for index in range(worker.count) if index != worker.index]
    hosts = {index: worker.everyone[index][0].device.host for index in others}
    if step.crossings:
        return _sorted([*own, *_between(own, step, plan)], plan)
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
    return _sorted(found, plan)


def _sorted(found: Iterable[MapTransfer], plan: WorkerPlan) -> tuple[MapTransfer, ...]:
    order = {each.ref: at for at, each in enumerate(plan.topology.devices)}
    return tuple(sorted(_joined(found), key=lambda each: (order[each.from_device], order[each.to_device])))


def _between(own: Iterable[MapTransfer], step: Step, plan: WorkerPlan) -> Iterator[MapTransfer]:
    """Yield what other workers send in a step if each has all weights: within themselves, and to others."""
    worker, known = plan.worker, {each.ref: each for each in plan.topology.devices}
    inside = [each for each in own if known[each.from_device].host == known[each.to_device].host]
    sent: dict[tuple[int, int], list[Tensor]] = {}
    for each in step.crossings:
        sent.setdefault((each.source, each.target), []).append(each.tensor)
    for index in range(worker.count):
        if index != worker.index:
            host = worker.everyone[index][0].device.host
            yield from (_moved(each, plan, worker.host, host) for each in inside)
    for (source, target), tensors in sent.items():
        if source != worker.index:
            sizes = {each.name: each.bytes for each in tensors if each.bytes is not None}
            largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:LARGEST]
            yield MapTransfer(
                _cpu(plan, source).ref,
                _cpu(plan, target).ref,
                tensors=len(tensors) + 1,  # and the number of the step
                bytes=sum(sizes.values()) + ITEM_BYTES["int64"],
                bytes_unknown=len(tensors) - len(sizes),
                largest=tuple(MapTensor(name, sizes[name]) for name in largest),
            )


def _cpu(plan: WorkerPlan, worker: int) -> Device:
    """Return the device on which a worker takes part in sums over all of them."""
    return plan.topology.first_cpu(*plan.worker.everyone[worker][0].device.host)


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
        found[pair] = found[pair].plus(each) if pair in found else each
    return found.values()
