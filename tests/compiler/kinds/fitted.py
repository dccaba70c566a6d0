"""The patterns of names that are written for the tasks and clones of two grids."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from compiler.kinds.fit import Listed
from compiler.kinds.grid import MapGrid
from compiler.kinds.patterns import Patterns

FEW, MORE = MapGrid("worker", "gpu", 2, 2, 1), MapGrid("worker", "gpu", 3, 3, 1)


def written(grid: MapGrid, text: str, *, of_worker: bool = False) -> list[str]:
    """Return a name for each task and clone of a grid; the first pipe and the first copy have no number.

    Args:
        grid: The grid.
        text: The name, with places for numbers.
        of_worker: Whether the names are those in the graph of the first worker.
    """
    found = []
    for clone in range(grid.clones):
        host, place = divmod(clone, grid.groups)
        number = place if of_worker else clone
        name = text.format(clone=number, task=host, place=place, less=clone - 1)
        if "_-1" not in name:
            found.append(name.replace("input/0/", "input/").replace("/replica_0", "").replace("sum_0", "sum"))
    return list(dict.fromkeys(found))


def patterns(
    *texts: str,
    few: MapGrid = FEW,
    more: MapGrid = MORE,
    of_worker: bool = False,
    own_pipes: bool = False,
    by_group: bool = True,
) -> tuple[Patterns, Patterns]:
    """Return the patterns of names among a few clones, and among more.

    Args:
        texts: The names, with places for numbers.
        few: The grid of the few.
        more: That of more.
        of_worker: Whether the names are those in the graph of the first worker.
        own_pipes: Whether each clone has a pipe of its own.
        by_group: Whether numbers of the clones on a task are wanted too.
    """
    few_names, more_names = (
        Listed(
            grid,
            dict.fromkeys(name for text in texts for name in written(grid, text, of_worker=of_worker)),
            of_worker=of_worker,
            own_pipes=own_pipes,
            by_group=by_group,
        )
        for grid in (few, more)
    )
    return Patterns.of_both(few_names, more_names)


def by_task(texts: Sequence[str], few: MapGrid, *, of_worker: bool = False) -> Patterns:
    """Return the patterns of names of all clones of a few tasks, with places for the numbers of tasks alone.

    Args:
        texts: The names, with places for numbers.
        few: The grid of the few.
        of_worker: Whether the names are those in the graph of the first worker.
    """
    more = evolve(few, hosts=few.hosts + 1)
    return patterns(*texts, few=few, more=more, of_worker=of_worker, by_group=False)[0]
