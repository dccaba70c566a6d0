"""Devices of a map: names of one or several (`worker[*].gpu[0..3]`), groups of many, and what each holds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import Any, Literal

from attrs import astuple, frozen

from compiler.figures import count, gathered, ranges, size
from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import MapDevice
from compiler.topology import Device, Host

_REF = re.compile(r"(?:(?P<job>\w+)\[(?P<task>\d+)\]\.)?(?P<kind>\w+)\[(?P<index>\d+)\]")


@cache  # there are few devices, whose names are read again and again
def parse_ref(ref: str) -> Device:
    """Return the device with a name; a name of another form is a kind by itself."""
    match = _REF.fullmatch(ref)
    job, task, kind, index = (None, None, ref, 0) if match is None else match.groups()
    return Device(kind, int(index), job, int(task or 0))  # type: ignore[arg-type] # the kind is a text


def job_kind(ref: str) -> tuple[str | None, str]:
    """Return what the devices of one kind in one job have in common."""
    device = parse_ref(ref)
    return device.job, device.kind


def host_kind(ref: str) -> tuple[Host, str]:
    """Return what the devices of one kind in one process have in common."""
    device = parse_ref(ref)
    return device.host, device.kind


def device_label(refs: Sequence[str]) -> str:
    """Return one name for several devices: `gpu[0..3,6]`, `worker[0..7].gpu[0..7]`."""
    if len(refs) == 1:
        return refs[0]
    hosts = gathered((host_kind(each), parse_ref(each).index) for each in refs)
    families = gathered(
        ((job, kind, tuple(sorted(indices))), task) for ((job, task), kind), indices in hosts.items()
    )
    return ", ".join(
        f"{f'{job}[{ranges(tasks)}].' if job else ''}{kind}[{ranges(indices)}]"
        for (job, kind, indices), tasks in families.items()
    )


@frozen
class Group:
    """One or several devices shown as one."""

    label: str
    devices: tuple[str, ...]
    # Whether the figures are those of each, which are equal, or the sum.
    figures: Literal["each", "sum"] = "each"

    @property
    def note(self) -> str:
        """What the figures are, if they are of several devices."""
        return f"{self.figures} of {len(self.devices)}" if len(self.devices) > 1 else ""

    @property
    def title(self) -> str:
        """The name with this note."""
        return f"{self.label} ({self.note})" if self.note else self.label


def groupings(devices: Sequence[str], figures: Callable[[str], Hashable]) -> Iterator[tuple[Group, ...]]:
    """Yield groupings of devices, from the most to the least detailed.

    Each device by itself; devices of a kind and job with equal figures combined; sums for each host; sums for
    each job.
    """
    yield tuple(Group(each, (each,)) for each in devices)
    yield _together(devices, lambda ref: (job_kind(ref), figures(ref)), "each")
    yield _together(devices, host_kind, "sum")
    yield _together(devices, job_kind, "sum")


def _together(
    devices: Sequence[str], key: Callable[[str], Hashable], figures: Literal["each", "sum"]
) -> tuple[Group, ...]:
    groups = gathered((key(each), each) for each in devices)
    return tuple(Group(device_label(each), tuple(each), figures) for each in groups.values())


def first_that_fits(
    devices: Sequence[str],
    figures: Callable[[str], Hashable],
    fits: Callable[[tuple[Group, ...]], bool],
) -> tuple[Group, ...]:
    """Return the most detailed grouping that fits, or the least detailed if none does."""
    last: tuple[Group, ...] = ()
    for last in groupings(devices, figures):
        if fits(last):
            break
    return last


# --- what each device of a placement map holds, sends and receives, and how full its memory is ------------


@frozen
class Totals:
    """The figures of a device, or the sums of several."""

    ops: int = 0
    variables: int = 0
    slots: int = 0
    memory: int | None = None  # the forecast of the memory that a step needs, or None if there is none
    bytes_in: int = 0  # the bytes received in a step
    in_unknown: int = 0  # the number of received tensors of unknown size
    bytes_out: int = 0  # the bytes sent in a step
    out_unknown: int = 0  # the number of sent tensors of unknown size
    # The part of a step in which it runs ops, from 0 to 1, or None if no time was forecast.
    busy: float | None = None

    def __add__(self, other: Totals) -> Totals:
        *pairs, _ = zip(astuple(self), astuple(other), strict=True)  # busy shares have no sum
        sums: Any = (None if pair == (None, None) else sum(filter(None, pair)) for pair in pairs)
        return Totals(*sums)


@frozen
class Figure:
    """A figure of `Totals` as tables, pages and JSON have it."""

    name: str  # the field of `Totals`
    title: str  # its name in tables
    key: str  # its name in JSON
    text: Callable[[int], str]  # writes it in a table
    unknown: str = ""  # the field with the number of tensors of unknown size that it leaves out

    def of(self, totals: Totals | None) -> int:
        """Return the figure of a device; 0 if it is not known."""
        found: int | None = getattr(totals, self.name, None)
        return found or 0

    def cell(self, totals: Totals) -> str:
        """Return what a table has: `?` if it is not known, and a `+` if there are tensors of unknown size."""
        if getattr(totals, self.name) is None:
            return "?"
        return self.text(self.of(totals)) + "+" * bool(self.unknown and getattr(totals, self.unknown))


FIGURES = (
    Figure("ops", "ops", "ops", count),
    Figure("variables", "variables", "variable_bytes", size),
    Figure("slots", "slots", "slot_bytes", size),
    Figure("memory", "memory", "memory_bytes", size),
    Figure("bytes_in", "in/step", "bytes_in", size, "in_unknown"),
    Figure("bytes_out", "out/step", "bytes_out", size, "out_unknown"),
)


def device_totals(placement: AnyMap) -> dict[str, Totals]:
    """Return the figures of every device of the map, by its name in specs."""
    busy = {each.ref: each.busy for each in placement.device_times}
    received: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # bytes, and tensors of unknown size
    sent: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for link in placement.links():
        for found, devices in ((sent, link.sources), (received, link.targets)):
            share = link.count // len(devices)
            for ref in devices:
                found[ref][0] += share * link.bytes
                found[ref][1] += share * link.unknown
    held = {
        each.ref: (each.ops, each.variable_bytes, each.slot_bytes, each.memory_bytes)
        for each in placement.devices
    }
    nothing = (0, 0, 0, None)

    def figures(ref: str) -> tuple[Any, ...]:
        return *held.get(ref, nothing), *received[ref], *sent[ref], busy.get(ref)

    return {ref: Totals(*figures(ref)) for ref in {**held, **sent, **received}}


def of_group(group: Group, totals: dict[str, Totals]) -> Totals:
    """Return the figures that are shown for a group of devices: those of each, or their sum."""
    if group.figures == "each":
        return totals[group.devices[0]]
    return add_up([totals[each] for each in group.devices])


def add_up(parts: Sequence[Totals]) -> Totals:
    """Return the sum of several devices' figures."""
    return sum(parts, start=Totals())


@frozen
class Pool:
    """The memory of a GPU, or of a machine, which all its CPU devices share."""

    devices: tuple[MapDevice, ...]
    needed: int  # the bytes of the forecast
    limit: int  # the bytes that there are

    @property
    def excess(self) -> int:
        """The bytes that are missing; zero or less if the memory suffices."""
        return self.needed - self.limit


def pools(placement: AnyMap) -> tuple[Pool, ...]:
    """Return every GPU and machine whose memory the spec gives and for which there is a forecast."""
    names = ((parse_ref(each.ref), each) for each in placement.devices)
    together = gathered((each.ref if name.kind == "gpu" else f"{name.host}", each) for name, each in names)
    return tuple(
        Pool(tuple(devices), sum(each.memory_bytes or 0 for each in devices), limit)
        for devices in together.values()
        if (limit := devices[0].memory_limit) is not None
        and all(each.memory_bytes is not None for each in devices)
    )
