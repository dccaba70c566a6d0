"""A lint that every declared GPU is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.checks.declared import Device, declared, named, written
from dsl.errors import lint
from dsl.ir.place import PARAMETER_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def unused_devices(facts: Facts) -> Iterator[Diagnostic]:
    """Report GPUs that no rule and no default uses."""
    devices, place, clones = facts.devices, facts.place, facts.clones
    if devices is None or place is None or clones is None:
        return
    gpus = declared(devices, ("gpu",))
    if not gpus:
        return
    used = _used(gpus, place, clones)
    owners: list[ir.Devices | ir.Job] = [*devices.jobs] or [devices]
    for owner in owners:
        job = owner.name if isinstance(owner, ir.Job) else None
        own = [gpu for gpu in gpus if gpu[0] == job]
        idle = [gpu for gpu in own if gpu not in used]
        at = owner.spans.get("gpu")
        if idle and at is not None:
            yield lint.unused_gpus([written(gpu) for gpu in idle], len(own), at)


def _used(gpus: list[Device], place: ir.Place, clones: ir.Clones) -> set[Device]:
    """Return the GPUs that a rule uses, including overridden rules, which another lint reports."""
    used: set[Device] = set()
    own = [rule for rule in place.rules if rule.selector.role == "clones"]
    if not own:
        used.update(_first([gpu for gpu in gpus if gpu[0] != PARAMETER_SERVER], clones.count))
    for rule in place.rules:
        target = rule.target
        if isinstance(target, (ir.DeviceSet, ir.Balanced, ir.RoundRobin, ir.Sharded, ir.Groups)):
            found = named(gpus, target if isinstance(target, ir.DeviceSet) else target.devices)
            if rule.selector.role == "clones":
                size = target.size if isinstance(target, ir.Groups) else 1
                found = _first(found, None if clones.count is None else clones.count * size)
            used.update(found)
    return used


def _first(gpus: list[Device], count: int | None) -> list[Device]:
    return gpus if count is None else gpus[:count]
