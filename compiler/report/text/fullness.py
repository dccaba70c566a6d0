"""The forecast of each GPU and each machine in percent of its memory, if the spec gives its memory."""

from __future__ import annotations

from attrs import frozen

from compiler.figures import size
from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import MapDevice
from compiler.report import refs
from compiler.report.table import headed
from compiler.report.view import View
from dsl.gathering import gathered


@frozen
class Pool:
    """The memory of a GPU, or of a machine, which all its CPU devices share.

    Attributes:
        devices: The devices.
        needed: The bytes of the forecast.
        limit: The bytes that there are.
    """

    devices: tuple[MapDevice, ...]
    needed: int
    limit: int

    @property
    def excess(self) -> int:
        """The bytes that are missing; zero or less if the memory suffices."""
        return self.needed - self.limit


def pools(placement: AnyMap) -> tuple[Pool, ...]:
    """Return every GPU and machine whose memory the spec gives and for which there is a forecast."""
    names = ((refs.parse(each.ref), each) for each in placement.devices)
    together = gathered((each.ref if name.kind == "gpu" else f"{name.host}", each) for name, each in names)
    return tuple(
        Pool(tuple(devices), sum(each.memory_bytes or 0 for each in devices), limit)
        for devices in together.values()
        if (limit := devices[0].memory_limit) is not None
        and all(each.memory_bytes is not None for each in devices)
    )


def fullness(placement: AnyMap, view: View) -> list[str]:
    """Return a line for each GPU and machine; nothing if the spec does not give their memory.

    Args:
        placement: The map, of any version.
        view: The settings of the view, which colour the head of the table.
    """
    alike = gathered(
        ((refs.parse(pool.devices[0].ref).job_kind, pool.needed, pool.limit), pool)
        for pool in pools(placement)
    )
    if not alike:
        return []
    rows = [("memory", "forecast", "there is", "full")]
    for (_, needed, limit), same in alike.items():
        label = refs.label([device.ref for pool in same for device in pool.devices])
        each = f" (each of {len(same)})" if len(same) > 1 else ""
        rows.append((f"{label}{each}", size(needed), size(limit), f"{needed / limit:.1%}"))
    return headed(rows, view.ink)
