"""Clones are numbered by task, and on a task by device."""

from __future__ import annotations

from compiler.kinds.deployment.grid import MapGrid, Spot

GRID = MapGrid("worker", "gpu", 3, 4, 2)


def test_every_clone_has_a_place_and_every_place_a_clone() -> None:
    """The number of a clone and its place tell each other."""
    assert GRID.clones == 12
    places = [(host, group) for host in range(3) for group in range(4)]
    assert [GRID.number(*each) for each in places] == list(range(12))
    assert [GRID.spot(at) for at in range(12)] == [Spot(*each) for each in places]


def test_a_smaller_grid() -> None:
    """It has no more than there is, and clones of the same size on devices of the same kind."""
    assert GRID.cut(2, 3) == MapGrid("worker", "gpu", 2, 3, 2)
    assert GRID.cut(5, 1) == MapGrid("worker", "gpu", 3, 1, 2)
    assert GRID.cut(3, 4) == GRID.cut(9, 9) == GRID
