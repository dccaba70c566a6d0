"""Combine devices so that many of them fit a view: equal ones in one column, or the sums of a host or job."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Literal

from attrs import frozen

from compiler.report import refs
from dsl.gathering import gathered


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


def groupings(devices: Sequence[str], figures: Callable[[str], Hashable]) -> Iterator[tuple[Group, ...]]:
    """Yield groupings of devices, from the most to the least detailed.

    Each device by itself; devices of a kind and job with equal figures combined; sums for each host; sums for
    each job.

    Args:
        devices: The names of the devices.
        figures: Returns the figures of a device.
    """
    yield tuple(Group(each, (each,)) for each in devices)
    yield _together(devices, lambda ref: (refs.parse(ref).job_kind, figures(ref)), "each")
    yield _together(devices, lambda ref: refs.parse(ref).host, "sum")
    yield _together(devices, lambda ref: refs.parse(ref).job_kind, "sum")


def _together(
    devices: Sequence[str], key: Callable[[str], Hashable], figures: Literal["each", "sum"]
) -> tuple[Group, ...]:
    groups = gathered((key(each), each) for each in devices)
    return tuple(Group(refs.label(each), tuple(each), figures) for each in groups.values())


def first_that_fits(
    devices: Sequence[str],
    figures: Callable[[str], Hashable],
    fits: Callable[[tuple[Group, ...]], bool],
) -> tuple[Group, ...]:
    """Return the most detailed grouping that fits, or the least detailed if none does.

    Args:
        devices: The names of the devices.
        figures: Returns the figures of a device.
        fits: Whether a grouping fits.
    """
    last: tuple[Group, ...] = ()
    for last in groupings(devices, figures):
        if fits(last):
            break
    return last
