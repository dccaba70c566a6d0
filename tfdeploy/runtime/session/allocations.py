"""What TensorFlow records about the memory of a traced step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def peak_of_tensors(nodes: Iterable[Any]) -> int:
    """Return the most bytes of tensors that ops had allocated at once.

    What a kernel frees before it ends is scratch memory, not a tensor, and does not count: its size depends
    on the library of kernels, the instructions of the processor and the number of threads.

    Args:
        nodes: The NodeExecStats of a step on one or several devices, of which one process records the time.
    """
    alive = peak = 0
    for _, size in sorted(change for node in nodes for change in _changes(node)):
        alive += size
        peak = max(peak, alive)
    return peak


def _changes(node: Any) -> Iterator[tuple[int, int]]:
    """Yield the times and the bytes, negative if they are freed, of the tensors that an op has allocated."""
    end = node.all_start_micros + node.op_end_rel_micros
    records = [
        (each.alloc_micros, each.alloc_bytes) for memory in node.memory for each in memory.allocation_records
    ]
    scratch = Counter(-size for time, size in records if size < 0 and time <= end)
    for time, size in records:
        if size < 0 and time <= end:
            continue
        if size > 0 and scratch[size]:
            scratch[size] -= 1
            continue
        yield time, size
