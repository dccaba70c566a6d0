"""The memory that a placement takes."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.search.problem import HOST, Workload


def measure_bytes(workload: Workload, places: Sequence[int]) -> list[float]:
    """Return the memory that is taken on each accelerator, in order."""
    taken = [0.0] * workload.accelerators
    for operator, place in zip(workload.operators, places, strict=True):
        if place != HOST:
            taken[place] += operator.bytes
    return taken
