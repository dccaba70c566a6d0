"""What ops of one type take by their size, for those in sizes that were not measured.

Between two sizes that were measured the time is on a line, below the smallest it is in proportion, and above
the largest in proportion too, but not by more than the work of the op takes at the rates of the core.
"""

from __future__ import annotations

from bisect import bisect_left

from attrs import frozen

from compiler.figures import gathered
from compiler.time.profile import OpCost

LEAST = 2e-7
"""The shortest time of a run of an op that is estimated, in seconds."""


@frozen
class Scale:
    """The times of ops of one type by their work, from which those of other sizes are estimated.

    Attributes:
        sizes: The work of each: bytes and operations added up, because one of the two prevails.
        alone: The times with one thread, which grow with the work.
        crowding: How much longer the type takes beside other ops.
        widening: How much shorter, or longer, it takes with more threads.
        runs: The kernels that an op of the type starts, as a mean.
    """

    sizes: tuple[float, ...]
    alone: tuple[float, ...]
    crowding: float
    widening: float
    runs: float

    @classmethod
    def of(cls, costs: list[OpCost]) -> Scale:
        """Return the times of measured ops of one type."""
        by_size = gathered((size_of(each.flops, each.bytes), each) for each in costs)
        sizes = tuple(sorted(by_size))
        means = [sum(each.alone for each in by_size[size]) / len(by_size[size]) for size in sizes]
        total = sum(each.alone for each in costs) or 1.0
        wide = sum(each.alone if each.wide is None else each.wide for each in costs)
        return cls(
            sizes,
            tuple(max(LEAST, each) for each in means),
            max(1.0, sum(each.crowded for each in costs) / total),
            wide / total or 1.0,
            sum(each.runs for each in costs) / len(costs),
        )

    def seconds(self, size: float, roof: float) -> float:
        """Return the time with one thread for a size: on a line between its neighbours, or in proportion.

        Args:
            size: The work of an op, in a size that was not measured.
            roof: What it takes at the rates of the core. Small ops take far longer than that, which says
                nothing about large ones.
        """
        at = bisect_left(self.sizes, size)
        if at == len(self.sizes):
            return min(self.alone[-1] * size / self.sizes[-1], self.alone[-1] + roof)
        if self.sizes[at] == size or at == 0:
            return max(LEAST, self.alone[at] * size / self.sizes[at])
        low, high = self.sizes[at - 1], self.sizes[at]
        part = (size - low) / (high - low)
        return (1 - part) * self.alone[at - 1] + part * self.alone[at]


def size_of(flops: int, size: int) -> float:
    """Return the work of an op as one number.

    Args:
        flops: Its operations.
        size: The bytes that it reads and writes.
    """
    return float(max(1, flops + size))
