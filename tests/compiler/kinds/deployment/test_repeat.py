"""Things of clones 0 and 1 on tasks 0 and 1 are repeated in the order of a graph."""

from __future__ import annotations

from compiler.kinds.deployment.grid import MapGrid, Placed, Spot, repeated


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
    assert _repeated(things) == [
        "shared 0 0",
        *("a 0 0", "a 0 1", "a 0 2"),
        *("pipe 1 0", "a 1 0", "a 1 1", "a 1 2"),
        *("pipe 2 0", "a 2 0", "a 2 1", "a 2 2"),
        "first 0 0",
        *("b 1 1", "b 1 2", "b 2 1", "b 2 2"),
    ]


def test_what_the_first_task_has_not_is_in_a_round_of_its_own() -> None:
    """The clones of a later task are gone over as often as those of the first, before the next task is."""
    twice = [(Spot(task, clone), name) for task in (0, 1) for name in "ab" for clone in (0, 1)]
    more = [(Spot(1, clone), "c") for clone in (0, 1)]
    later = [f"c {task} {clone}" for task in (1, 2) for clone in range(3)]
    whole = [f"{name} {task} {clone}" for task in range(3) for name in "ab" for clone in range(3)]
    assert _repeated(twice) == whole
    assert _repeated([*twice, *more]) == [*whole, *later]
    assert _repeated([*twice, *more, *more]) == [*whole, *later, *later]


def test_chosen_things_are_in_the_order_of_all() -> None:
    """What stands between two things separates their rounds, also if it is left out."""
    things = [
        (Spot(1, 1), "a"),
        (Spot(0, 0), "other"),
        (Spot(1, 1), "b"),
        (Spot(1), "pipe"),
        (Spot(1, 1), "c"),
    ]
    everything = _repeated(things)
    assert _repeated(things, "abc") == [each for each in everything if each[0] in "abc"]
    assert _repeated(things, "b") == ["b 1 1", "b 1 2", "b 2 1", "b 2 2"]


def _repeated(things: list[Placed[str]], chosen: str | None = None) -> list[str]:
    found = repeated(things, MapGrid("w", "gpu", 3, 3, 1), lambda each: chosen is None or each in chosen)
    return [f"{thing} {host} {group}" for thing, host, group in found]
