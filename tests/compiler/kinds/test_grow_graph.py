"""The graph of a step of many clones from that of a few, drawn like one written down by clone."""

from __future__ import annotations

import pytest

from compiler.kinds.grid import NotAlikeError
from compiler.kinds.grow import kinds_of
from compiler.kinds.grow_graph import FewGraphs, grow_graph
from compiler.kinds.step_kinds import StepKinds
from compiler.report.dot import dot
from tests.compiler.kinds.deployments import NAMES, grid_of, map_of, pipe, plan_of
from tests.compiler.kinds.fitted import patterns
from tests.placement_maps import HANDLE, Sent, step_among


def sent_by(tasks: int, clones: int) -> list[Sent]:
    """Return a step: the weight is read, towers get the examples of their task, and gradients are summed."""
    edges = []
    for number in range(tasks * clones):
        name, feed = f"clone_{number}", pipe(number // clones)
        edges += [
            ("w", f"{name}/w/read", "w:0", HANDLE),
            (f"{name}/w/read", f"{name}/MatMul", f"{name}/w/read:0", 64),
            (feed, f"{name}/MatMul", f"{feed}:0", 16 * clones),
            (feed, f"{name}/hash", f"{feed}:1", 7 + number),  # on the same device
            (f"{name}/hash", f"{name}/MatMul", f"{name}/hash:0", None),
            (f"{name}/MatMul", f"{name}/odd{{}}", f"{name}/MatMul:0", 5),
            (f"{name}/MatMul", "update/apply", f"{name}/MatMul:0", 40),
            ("w", f"{name}/mean", "w:1", 4 * tasks * clones),
        ]
    return edges


def step_of(tasks: int, clones: int) -> StepKinds:
    """Return such a step with its ops."""
    return step_among(map_of(tasks, clones), sent_by(tasks, clones))


def known_of(step_of_more: StepKinds) -> FewGraphs:
    """Return what is known of four and of nine clones."""
    return FewGraphs(step_of(2, 2), patterns(*NAMES)[0], step_of_more, grid_of(3, 3))


@pytest.mark.parametrize(("tasks", "clones"), [(2, 2), (3, 3), (4, 3), (3, 8)])
def test_many_clones_are_drawn_as_their_graph_is(tasks: int, clones: int) -> None:
    """Sizes grow with all clones or with those of a task, and a tensor for several clones is counted once."""
    grid = grid_of(tasks, clones)
    step = grow_graph(known_of(step_of(3, 3)), grid)
    kinds = kinds_of(map_of(2, 2), patterns(*NAMES)[0], grid, plan_of(tasks, clones))
    drawn = dot(kinds, step)
    assert drawn == dot(map_of(tasks, clones), step_of(tasks, clones))
    assert f"{tasks * clones} tensors" in drawn


def test_what_does_not_follow_from_a_few_is_refused() -> None:
    """An edge that is missing, one more, an op that takes no part, and a size that grows otherwise."""
    placement, sent = map_of(3, 3), sent_by(3, 3)
    words = "do not feed each other like those of a few"
    for wrong in (
        sent[:-9],
        [*sent, ("w", "update/apply", "w:0", HANDLE)],
        [each for each in sent if "clone_8/hash" not in each],
    ):
        with pytest.raises(NotAlikeError, match=words):
            grow_graph(known_of(step_among(placement, wrong)), grid_of(4, 3))
    strange = [(*each[:3], 17 if each[2] == "w:1" else each[3]) for each in sent]
    with pytest.raises(NotAlikeError, match="the size of w:1 does not grow in proportion"):
        grow_graph(known_of(step_among(placement, strange)), grid_of(4, 3))
