"""Who reads which share of the data: the towers of a graph that are fed together, and all shares of a run.

One stream is split among all clones of a host. If the clones are on several hosts, each host reads its own
share of the data. With `per_clone = shard`, each clone does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from compiler.placement.rules import Rulebook
from compiler.plan import WorkerPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compiler.plan import Plan, Tower
    from compiler.reasons import Placed
    from compiler.topology import Device


@frozen
class Reader:
    """Towers of a graph that are fed from one pipe.

    Attributes:
        placed: The place of the pipe.
        towers: The towers.
        shard: (index, of how many) if they read a part of the data; None if they read all of it.
    """

    placed: Placed
    towers: Sequence[Tower]
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
    by_device: dict[Device, list[Tower]] = {}
    for tower in plan.towers:
        by_device.setdefault(book.inputs(tower).device, []).append(tower)
    if not _several_hosts(plan) or not _even(list(by_device.values())):
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


def _several_hosts(plan: Plan) -> bool:
    return len({tower.device.host for tower in plan.towers}) > 1


def _even(groups: Sequence[Sequence[Tower]]) -> bool:
    """Whether all groups take equally many examples in a step, so that equal shards last equally long."""
    return len({sum(tower.batch for tower in towers) for towers in groups}) == 1


def _part(index: int, count: int) -> tuple[int, int] | None:
    return (index, count) if count > 1 else None
