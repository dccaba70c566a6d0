"""Names of one or several devices: `gpu[0..7]`, `worker[*].gpu[0..3]`; and groups of many."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import Literal

from attrs import frozen

from compiler.figures import gathered, ranges

_REF = re.compile(r"(?:(?P<job>\w+)\[(?P<task>\d+)\]\.)?(?P<kind>\w+)\[(?P<index>\d+)\]")


@frozen
class Ref:
    """The parts of a device's name.

    Attributes:
        job: The job, or nothing for a device of this machine.
        task: The number of the task in its job; 0 for a device of this machine.
        kind: `cpu` or `gpu`.
        index: The number among the devices of this kind on the task.
    """

    job: str
    task: int
    kind: str
    index: int

    @property
    def host(self) -> tuple[str, int, str]:
        """What the devices of one kind in one process have in common."""
        return (self.job, self.task, self.kind)

    @property
    def job_kind(self) -> tuple[str, str]:
        """What the devices of one kind in one job have in common."""
        return (self.job, self.kind)


@cache  # there are few devices, whose names are read again and again
def parse(ref: str) -> Ref:
    """Return the parts of a device's name; a name of another form is a kind by itself."""
    match = _REF.fullmatch(ref)
    if match is None:
        return Ref("", 0, ref, 0)
    return Ref(match["job"] or "", int(match["task"] or 0), match["kind"], int(match["index"]))


def label(refs: Sequence[str]) -> str:
    """Return one name for several devices: `gpu[0..3,6]`, `worker[0..7].gpu[0..7]`."""
    if len(refs) == 1:
        return refs[0]
    hosts = gathered((each.host, each.index) for each in map(parse, refs))
    families = gathered(
        ((job, kind, tuple(sorted(indices))), task) for (job, task, kind), indices in hosts.items()
    )
    return ", ".join(
        f"{f'{job}[{ranges(tasks)}].' if job else ''}{kind}[{ranges(indices)}]"
        for (job, kind, indices), tasks in families.items()
    )


@frozen
class Group:
    """One or several devices shown as one.

    Attributes:
        label: Their name.
        devices: The names of the devices.
        figures: Whether the figures are those of each, which are equal, or the sum.
    """

    label: str
    devices: tuple[str, ...]
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
    yield _together(devices, lambda ref: (parse(ref).job_kind, figures(ref)), "each")
    yield _together(devices, lambda ref: parse(ref).host, "sum")
    yield _together(devices, lambda ref: parse(ref).job_kind, "sum")


def _together(
    devices: Sequence[str], key: Callable[[str], Hashable], figures: Literal["each", "sum"]
) -> tuple[Group, ...]:
    groups = gathered((key(each), each) for each in devices)
    return tuple(Group(label(each), tuple(each), figures) for each in groups.values())


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
