"""The graph of a step of many clones from that of a few, drawn like one written down by clone."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.kinds.deployment.grid import NotAlikeError
from compiler.kinds.growing.grow import kinds_of
from compiler.kinds.growing.grow_graph import FewGraphs, grow_graph
from compiler.mapping.records import Edge, StepGraph
from compiler.report.dot import dot
from tests.compiler.kinds.fitted import patterns
from tests.compiler.kinds.growing.deployments import NAMES, grid_of, map_of, pipe, plan_of


def step_of(tasks: int, clones: int) -> StepGraph:
    """Return a step: the weight is read, towers get the examples of their task, and gradients are summed."""
    edges = []
    for number in range(tasks * clones):
        name, feed = f"clone_{number}", pipe(number // clones)
        edges += [
            Edge("w", f"{name}/w/read", "w:0", 0, handle=True),
            Edge(f"{name}/w/read", f"{name}/MatMul", f"{name}/w/read:0", 64),
            Edge(feed, f"{name}/MatMul", f"{feed}:0", 16 * clones),
            Edge(feed, f"{name}/hash", f"{feed}:1", 7 + number),  # on the same device
            Edge(f"{name}/hash", f"{name}/MatMul", f"{name}/hash:0", None),
            Edge(f"{name}/MatMul", f"{name}/odd{{}}", f"{name}/MatMul:0", 5),
            Edge(f"{name}/MatMul", "update/apply", f"{name}/MatMul:0", 40),
            Edge("w", f"{name}/mean", "w:1", 4 * tasks * clones),
        ]
    ends = {end for each in edges for end in (each.source, each.target)}
    return StepGraph(frozenset(ends), tuple(edges))


def known_of(step_of_more: StepGraph) -> FewGraphs:
    """Return what is known of four and of nine clones."""
    names = patterns(*NAMES)[0]
    return FewGraphs(map_of(2, 2), step_of(2, 2), names, map_of(3, 3), step_of_more, grid_of(3, 3))


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
    step = step_of(3, 3)
    first, last = step.edges[0], step.edges[-1]
    words = "do not feed each other like those of a few"
    for wrong in (
        evolve(step, edges=step.edges[:-9]),
        evolve(step, edges=(*step.edges, evolve(first, target="update/apply"))),
        evolve(step, ops=step.ops - {"clone_8/hash"}),
    ):
        with pytest.raises(NotAlikeError, match=words):
            grow_graph(known_of(wrong), grid_of(4, 3))
    strange = tuple(evolve(each, bytes=17) if each.tensor == last.tensor else each for each in step.edges)
    with pytest.raises(NotAlikeError, match="the size of w:1 does not grow in proportion"):
        grow_graph(known_of(evolve(step, edges=strange)), grid_of(4, 3))
