"""What is to be placed: operators with their costs, and the devices that there are.

The measure is the max-load of Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph
Operators (NeurIPS 2020): the largest load of a device, which is the time per sample of a full pipeline.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from attrs import frozen

HOST = -1
"""The place of an operator that is on the host instead of an accelerator."""


@frozen
class Operator:
    """One operator of a graph.

    Attributes:
        name: What it is called in messages.
        seconds: Its time on an accelerator, in any unit that all times share.
        host_seconds: Its time on the host, in the same unit.
        bytes: The memory that it takes on an accelerator.
        sends: The time to move its output between an accelerator and the memory of the host.
        readers: The operators that read its output, as places in `Workload.operators`.
        supported: Whether accelerators can run it.
        backward: Whether it belongs to the backward pass.
        together: Operators with the same value, other than None, have to be on the same device.
    """

    name: str
    seconds: float
    host_seconds: float
    bytes: float
    sends: float = 0.0
    readers: tuple[int, ...] = ()
    supported: bool = True
    backward: bool = False
    together: Hashable = None


@frozen
class Workload:
    """Operators and the devices that they are to be placed on.

    Attributes:
        operators: The operators.
        accelerators: How many accelerators there are, which are all alike.
        capacity: The memory of each accelerator, in bytes.
        host: Whether operators may be on the host, whose memory has no bound.
    """

    operators: tuple[Operator, ...]
    accelerators: int
    capacity: float
    host: bool = True


def measure_loads(workload: Workload, places: Sequence[int]) -> list[float]:
    """Return the load of each device, by the definition and without any of the search's own tables.

    The load of an accelerator is the time of its operators, and what it costs to move each output that it
    reads from elsewhere, once, and each of its own outputs that is read elsewhere, once. The load of the host
    is the time of its operators.

    Returns:
        The loads of the accelerators in order, and that of the host as the last.
    """
    loads = [0.0] * (workload.accelerators + 1)
    for operator, place in zip(workload.operators, places, strict=True):
        loads[place] += operator.host_seconds if place == HOST else operator.seconds
        reading = {places[reader] for reader in operator.readers}
        if place != HOST and reading - {place}:
            loads[place] += operator.sends
        for other in reading - {place, HOST}:
            loads[other] += operator.sends
    return loads


def measure_bytes(workload: Workload, places: Sequence[int]) -> list[float]:
    """Return the memory that is taken on each accelerator, in order.

    Args:
        workload: The operators, with their bytes, and the number of accelerators.
        places: The number of each operator's accelerator, or HOST, in the order of the operators.

    Returns:
        The bytes on each accelerator.
    """
    taken = [0.0] * workload.accelerators
    for operator, place in zip(workload.operators, places, strict=True):
        if place != HOST:
            taken[place] += operator.bytes
    return taken
