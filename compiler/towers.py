"""The towers of a spec: their number, devices, name scopes and examples, and which data they read."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from compiler.figures import gathered
from compiler.placement.rules import Rulebook
from compiler.plan import Plan, Tower, WorkerPlan
from compiler.reasons import Placed
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
        count: The number of clones. The checks have found that a global batch is a multiple of it.
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
            piped=0 if spec.update.schedule is None else spec.update.accumulate,
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


# --- who reads which share of the data ---------------------------------------------------------------------
#
# One stream is split among all clones of a host. If the clones are on several hosts, each host reads its
# own share of the data. With `per_clone = shard`, each clone does.


@frozen
class Reader:
    """Towers of a graph that are fed from one pipe."""

    placed: Placed
    towers: Sequence[Tower]
    # (index, of how many) if they read a part of the data; None if they read all of it.
    shard: tuple[int, int] | None = None


def each_clone_reads(plan: Plan) -> bool:
    """Whether each clone reads a part of the data of its own, and so has a pipe of its own."""
    return plan.spec.data is not None and plan.spec.data.per_clone == "shard"


def readers_of(plan: Plan) -> list[Reader]:
    """Return the towers of the plan's graph that are fed together, in the order of their first tower."""
    book = Rulebook(plan.spec.place.rules, plan.topology)
    if each_clone_reads(plan):
        count = len(plan.all_towers)
        return [Reader(book.inputs(tower), [tower], _part(tower.number, count)) for tower in plan.towers]
    if isinstance(plan, WorkerPlan):
        shard = _part(plan.worker.index, plan.worker.count)
        return [Reader(book.inputs(), plan.towers, shard)]
    by_device = gathered((book.inputs(tower).device, tower) for tower in plan.towers)
    several_hosts = len({tower.device.host for tower in plan.towers}) > 1
    batches = {sum(tower.batch for tower in towers) for towers in by_device.values()}
    if not several_hosts or len(batches) > 1:
        return [Reader(book.inputs(), plan.towers)]
    return [
        Reader(book.inputs(towers[0]), towers, _part(number, len(by_device)))
        for number, towers in enumerate(by_device.values())
    ]


def names_of_shares(plan: Plan) -> list[str]:
    """Return who reads each share of the data, over all graphs of the run.

    If nobody has a share, the only name is empty.
    """
    if isinstance(plan, WorkerPlan) and not each_clone_reads(plan):
        return [plan.worker.task(index) for index in range(plan.worker.count)]
    if each_clone_reads(plan):
        return [_name_of_clone(tower) for tower in plan.all_towers]
    return [name_of(reader, plan) for reader in readers_of(plan)]


def name_of(reader: Reader, plan: Plan) -> str:
    """Return who reads a share, in words: a clone, or the task of several; nothing if it is no share."""
    if reader.shard is None:
        return ""
    if each_clone_reads(plan):
        return _name_of_clone(reader.towers[0])
    job, task = reader.towers[0].device.host
    return f"{job}:{task}"


def _name_of_clone(tower: Tower) -> str:
    job, task = tower.device.host
    return f"clone {tower.number}" if job is None else f"clone {tower.number} of {job}:{task}"


def _part(index: int, count: int) -> tuple[int, int] | None:
    return (index, count) if count > 1 else None
