"""Things of clones 0 and 1 on tasks 0 and 1 are repeated in the order of a graph."""

from __future__ import annotations

from compiler.kinds.deployment.grid import Grid, Spot
from compiler.kinds.deployment.repeat import repeated


def test_tasks_are_outside_and_clones_inside() -> None:
    """What is of a task comes before its clones; what is of nothing, once; two rounds stay two rounds."""
    things = [
        (Spot(), "shared"),
        (Spot(0, 0), "a"),
        (Spot(0, 1), "a"),
        (Spot(1), "pipe"),
        (Spot(1, 0), "a"),
        (Spot(1, 1), "a"),
        (Spot(0, 0), "first"),
        (Spot(1, 1), "b"),
    ]
    found = [f"{thing} {host} {group}" for thing, host, group in repeated(things, Grid("w", "gpu", 3, 3))]
    assert found == [
        "shared 0 0",
        *("a 0 0", "a 0 1", "a 0 2"),
        *("pipe 1 0", "a 1 0", "a 1 1", "a 1 2"),
        *("pipe 2 0", "a 2 0", "a 2 1", "a 2 2"),
        "first 0 0",
        *("b 1 1", "b 1 2", "b 2 1", "b 2 2"),
    ]
