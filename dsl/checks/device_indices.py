"""A check that every device that a spec names is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.errors import placement
from dsl.ir.place import PARAMETER_SERVER
from dsl.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def device_indices(facts: Facts) -> Iterator[Diagnostic]:
    """Report devices and tasks that are not declared.

    GPUs whose number is only known at run time are not checked.
    """
    if facts.devices is None:
        return
    absent: set[tuple[str | None, str]] = set()
    for pattern in facts.patterns:
        yield from _task(pattern, facts.devices)
        yield from _device(pattern, facts.devices, absent)


def _task(pattern: ir.DevicePattern, devices: ir.Devices) -> Iterator[Diagnostic]:
    job = next((each for each in devices.jobs if each.name == pattern.job), None)
    if job is None or pattern.tasks is None or pattern.span is None:
        return
    highest = max(pattern.tasks)
    if highest >= job.tasks:
        at = job.span_of("hosts" if job.hosts else "tasks")
        name = f"{job.name}[{highest}]"
        span = _narrowed(pattern.span, highest)
        yield placement.no_such_index(
            name,
            "task",
            highest,
            job.tasks,
            span,
            at,
            attribute="tasks",
            in_range=len(pattern.tasks) > 1,
        )


def _device(
    pattern: ir.DevicePattern, devices: ir.Devices, absent: set[tuple[str | None, str]]
) -> Iterator[Diagnostic]:
    if pattern.span is None:
        return
    owners = _owners(pattern, devices)
    counts = [_count(pattern.kind, owner) for owner in owners]
    if not counts or None in counts:
        return
    count = max(each for each in counts if each is not None)
    at = owners[counts.index(count)].span_of(pattern.kind)
    if count == 0:
        if (pattern.job, pattern.kind) in absent:
            return
        absent.add((pattern.job, pattern.kind))
        yield placement.none_declared(pattern.span, kind=pattern.kind, at=at, noun=pattern.kind.upper())
    elif pattern.indices is not None and max(pattern.indices) >= count:
        highest = max(pattern.indices)
        name = f"{pattern.kind}[{highest}]"
        span = _narrowed(pattern.span, highest)
        yield placement.no_such_index(
            name,
            pattern.kind.upper(),
            highest,
            count,
            span,
            at,
            attribute=pattern.kind,
            in_range=len(pattern.indices) > 1,
        )


def _owners(pattern: ir.DevicePattern, devices: ir.Devices) -> list[ir.Devices | ir.Job]:
    """Return the records that say how many devices there are of those that a pattern could mean."""
    if pattern.job is not None:
        return [job for job in devices.jobs if job.name == pattern.job]
    if devices.jobs:
        return [job for job in devices.jobs if job.name != PARAMETER_SERVER]
    return [devices]


def _count(kind: str, owner: ir.Devices | ir.Job) -> int | None:
    """Return how many devices of a kind a job or machine has; None if that is only known when it runs."""
    if isinstance(owner, ir.Job):
        return owner.gpu if kind == "gpu" else owner.cpu
    if kind == "cpu":
        return owner.cpu or 1
    return None if owner.gpu is None and owner.cpu is None else owner.gpu or 0


def _narrowed(span: Span, index: int) -> Span:
    """Return the part of `span` in which `index` stands, or all of it if it is a constant or a result."""
    start = span.text.rfind(str(index))
    return span if start < 0 else Span(span.source, span.start + start, span.start + start + len(str(index)))
