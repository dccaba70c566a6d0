"""The devices that a spec declares, and checks of what it says about devices and hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import placement, types
from dsl.ir.place import PARAMETER_SERVER
from dsl.ir.spec import Facts
from dsl.source import Span

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
    """Return the declared devices of some kinds, in order; none if there are too many to list.

    A machine without a declared number of CPU devices has one. GPUs whose number is not declared are left
    out.
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
    """Return the devices that a set names, in the order of the set."""
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
    at = job.span_of("hosts" if job.hosts else "tasks")
    yield from _beyond(pattern.span, job.name, "task", pattern.tasks, job.tasks, at, "tasks")


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
    elif pattern.indices is not None:
        kind = pattern.kind
        yield from _beyond(pattern.span, kind, kind.upper(), pattern.indices, count, at, kind)


def _beyond(
    span: Span, name: str, noun: str, indices: tuple[int, ...], count: int, at: Span | None, attribute: str
) -> Iterator[Diagnostic]:
    """Report the highest of some indices if there are not so many of what has this name."""
    highest = max(indices)
    if highest >= count:
        span, name, many = _narrowed(span, highest), f"{name}[{highest}]", len(indices) > 1
        yield placement.no_such_index(
            name, noun, highest, count, span, at, attribute=attribute, in_range=many
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


_SINGLE = frozenset({"evaluation", "summaries"})


def single_places(facts: Facts) -> Iterator[Diagnostic]:
    """Report rules that place evaluation or summaries on several devices of one task; only one is used."""
    devices, place = facts.devices, facts.place
    if devices is None or place is None:
        return
    everything = declared(devices)
    for rule in place.rules:
        if rule.selector.role in _SINGLE and isinstance(rule.target, ir.DeviceSet):
            found = named(everything, rule.target)
            tasks = Counter(each[:2] for each in dict.fromkeys(found))
            if any(count > 1 for count in tasks.values()):
                yield placement.one_device_only(
                    rule.target.span or rule.span, role=rule.selector.role, count=max(tasks.values())
                )


def prometheus(facts: Facts) -> Iterator[Diagnostic]:
    """Report an address for Prometheus that is none."""
    train = facts.train
    if train is None or train.prometheus is None:
        return
    from dsl.errors import cluster
    from dsl.ir.place import metrics_address

    try:
        metrics_address(train.prometheus)
    except ValueError as error:
        yield cluster.bad_prometheus(train.span_of("prometheus"), address=train.prometheus, reason=str(error))


def hosts(facts: Facts) -> Iterator[Diagnostic]:
    """Report addresses in `hosts` that are not `host:port`, and addresses that two tasks share."""
    jobs = facts.devices.jobs if facts.devices is not None else ()
    if not any(job.hosts for job in jobs):
        return
    from dsl.errors import cluster
    from dsl.ir.place import split_address

    taken: dict[tuple[str, int], tuple[str, Span | None]] = {}
    for job in jobs:
        span = job.span_of("hosts")
        for index, address in enumerate(job.hosts):
            try:
                parts = split_address(address)
            except ValueError as error:
                yield cluster.bad_address(span, address=address, reason=str(error))
                continue
            name = f"{job.name}:{index}"
            if parts in taken:
                first, other = taken[parts]
                yield cluster.shared_address(
                    span, address=address, first=first, second=name, other=None if other == span else other
                )
            taken.setdefault(parts, (name, span))
