"""Names of one or several devices: `gpu[0..7]`, `worker[*].gpu[0..3]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from attrs import frozen

from compiler.figures import ranges
from dsl.gathering import gathered

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
