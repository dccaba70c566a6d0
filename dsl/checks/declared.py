"""The devices that a spec declares, and those among them that a set of devices names."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dsl import ir
from dsl.errors import types
from dsl.ir.place import PARAMETER_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic

MOST = 100_000

Device: TypeAlias = tuple[str | None, int, str, int]
"""Job (None on this machine), task, kind (`cpu` or `gpu`) and index."""


def few_devices(facts: Facts) -> Iterator[Diagnostic]:
    """Report a cluster of more devices than are listed."""
    total = 0
    for job in facts.devices.jobs if facts.devices is not None else ():
        total += job.tasks * (job.cpu + job.gpu)
        span = job.span_of("gpu" if job.gpu > job.cpu else "cpu" if "cpu" in job.spans else "tasks")
        if total > MOST and span is not None:
            yield types.out_of_range(
                span, what="the number of all devices", bounds=f"at most {MOST:,}", found=f"{total:,}"
            )
            return


def declared(devices: ir.Devices, kinds: tuple[str, ...] = ("cpu", "gpu")) -> list[Device]:
    """Return the declared devices of some kinds, in order.

    A machine without a declared number of CPU devices has one. GPUs whose number is not declared are left
    out.

    Args:
        devices: The `devices` block.
        kinds: The kinds of devices.

    Returns:
        The devices, or an empty list if there are too many to list.
    """
    found: list[Device] = []
    for kind in kinds:
        for owner in devices.jobs or (devices,):
            count = getattr(owner, kind)
            count = (1 if kind == "cpu" else 0) if count is None else count
            tasks, job = (owner.tasks, owner.name) if isinstance(owner, ir.Job) else (1, None)
            if len(found) + tasks * count > MOST:
                return []
            found += [(job, task, kind, index) for task in range(tasks) for index in range(count)]
    return found


def named(devices: list[Device], target: ir.DeviceSet) -> list[Device]:
    """Return the devices that a set names, in the order of the set.

    Args:
        devices: The devices to choose from.
        target: The set.
    """
    return [each for pattern in target.patterns for each in _named_by(pattern, devices)]


def written(device: Device) -> str:
    """Return a device as it is written in a spec."""
    job, task, kind, index = device
    return f"{kind}[{index}]" if job is None else f"{job}[{task}].{kind}[{index}]"


def _named_by(pattern: ir.DevicePattern, devices: list[Device]) -> Iterator[Device]:
    tasks, indices = (None if each is None else frozenset(each) for each in (pattern.tasks, pattern.indices))
    for each in devices:
        job, task, kind, index = each
        if (
            pattern.kind == kind
            and (pattern.job == job or (pattern.job is None and job != PARAMETER_SERVER))
            and (tasks is None or task in tasks)
            and (indices is None or index in indices)
        ):
            yield each
