"""Lint: every GPU and every task that is declared has something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dsl import ir
from dsl.errors import lint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic

MOST = 100_000

Gpu: TypeAlias = tuple[str | None, int, int]
"""Job, task and index of a GPU."""


def unused_devices(facts: Facts) -> Iterator[Diagnostic]:
    """Report GPUs that no rule and no default puts anything on."""
    devices, place, clones = facts.devices, facts.place, facts.clones
    if devices is None or place is None or clones is None:
        return
    owners: list[ir.Devices | ir.Job] = [*devices.jobs] or [devices]
    declared = [gpu for owner in owners for gpu in _gpus(owner)]
    if not declared or len(declared) > MOST:
        return
    used = _used(declared, place, clones)
    for owner in owners:
        idle = [gpu for gpu in _gpus(owner) if gpu not in used]
        at = owner.spans.get("gpu")
        if idle and at is not None:
            yield lint.unused_gpus([_name(gpu) for gpu in idle], len(_gpus(owner)), at)


def _gpus(owner: ir.Devices | ir.Job) -> list[Gpu]:
    if isinstance(owner, ir.Job):
        return [(owner.name, task, index) for task in range(owner.tasks) for index in range(owner.gpu)]
    return [(None, 0, index) for index in range(owner.gpu or 0)]


def _name(gpu: Gpu) -> str:
    job, task, index = gpu
    return f"gpu[{index}]" if job is None else f"{job}[{task}].gpu[{index}]"


def _used(declared: list[Gpu], place: ir.Place, clones: ir.Clones) -> set[Gpu]:
    """Return the GPUs that something is put on; a rule that loses counts, since it has a lint of its own."""
    used: set[Gpu] = set()
    own = [rule for rule in place.rules if rule.selector.role == "clones"]
    if not own:
        used.update(_first([gpu for gpu in declared if gpu[0] != "ps"], clones.count))
    for rule in place.rules:
        target = rule.target
        if isinstance(target, (ir.DeviceSet, ir.Balanced, ir.RoundRobin, ir.Groups)):
            named = _named(declared, target if isinstance(target, ir.DeviceSet) else target.devices)
            if rule.selector.role == "clones":
                size = target.size if isinstance(target, ir.Groups) else 1
                named = _first(named, None if clones.count is None else clones.count * size)
            used.update(named)
    return used


def _first(gpus: list[Gpu], count: int | None) -> list[Gpu]:
    return gpus if count is None else gpus[:count]


def _named(declared: list[Gpu], devices: ir.DeviceSet) -> list[Gpu]:
    return [gpu for pattern in devices.patterns for gpu in declared if _is_named(gpu, pattern)]


def _is_named(gpu: Gpu, pattern: ir.DevicePattern) -> bool:
    job, task, index = gpu
    return (
        pattern.kind == "gpu"
        and (pattern.job == job or (pattern.job is None and job != "ps"))
        and (pattern.tasks is None or task in pattern.tasks)
        and (pattern.indices is None or index in pattern.indices)
    )
