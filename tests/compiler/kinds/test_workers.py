"""What devices hold for each worker that has a graph of its own."""

from __future__ import annotations

import pytest

from compiler.kinds.grid import MapGrid, NotAlikeError
from compiler.kinds.workers import Held, at_first, held_for_each
from tests.compiler.kinds.fitted import by_task

BOX = "mail/fc1/kernel/worker_{task}/value_box"
PATTERNS = by_task([BOX], MapGrid("worker", "gpu", 2, 8, 1), of_worker=True)


def _held(workers: int, number: int = 8) -> list[Held]:
    """Return the boxes of workers, a number of eight bytes for each of them, and another one."""
    boxes = [Held(BOX.format(task=at), "ps[1].cpu[0]", 40) for at in range(workers)]
    return [
        *boxes,
        Held("cluster/arrived", "ps[0].cpu[0]", number * workers),
        Held("global_step", "ps[0].cpu[0]", 8),
    ]


def test_boxes_and_numbers_grow_with_workers() -> None:
    """A worker has a box of its own, and a place among the numbers."""
    found = held_for_each(_held(2), _held(3), PATTERNS, (2, 3))
    assert found == {"ps[1].cpu[0]": 40, "ps[0].cpu[0]": 8}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (_held(3)[1:], "only few workers have mail/fc1/kernel/worker_0/value_box"),
        (_held(3, number=9), "cluster/arrived does not grow"),
        ([*_held(3), Held("other", "ps[1].cpu[0]", 4)], "what ps\\[1\\].cpu\\[0\\] holds does not grow"),
    ],
)
def test_what_grows_otherwise_has_no_kind(more: list[Held], words: str) -> None:
    """Then the graph of all clones has to be built."""
    with pytest.raises(NotAlikeError, match=words):
        held_for_each(_held(2), more, PATTERNS, (2, 3))


def test_other_workers_have_the_names_of_the_first() -> None:
    """Their graphs do not say of which worker they are."""
    assert at_first("worker[{task}].gpu[3]") == ("worker[0].gpu[3]")
