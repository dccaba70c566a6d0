"""What the figures of placements are compared by, against steps whose times can be computed in the head."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.suggest.figures import Goal, bound
from tests.compiler.time.steps import Machine, op, step
from tests.placement_maps import make_map


def test_no_step_is_shorter_than_its_longest_chain() -> None:
    """A chain of ops counts with what each of them waits for; an equal share counts if it is larger."""
    ops = [op("a=10"), op("b=20"), op("c=5"), op("d=1")]
    arrows = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    machine = Machine(cores=8)

    def least(pairs: list[tuple[str, str]], **more: object) -> float:
        return bound(Goal.STEP_TIME, make_map(1), step(ops, pairs, **more), machine) * 1e3

    assert least(arrows) == pytest.approx(10 + 20 + 1)
    assert least([("a", "b")]) == pytest.approx(10 + 20)
    assert least([]) == pytest.approx(20)
    one_core = bound(Goal.STEP_TIME, make_map(1), step(ops, []), evolve(machine, cores=1))
    assert one_core * 1e3 == pytest.approx(36)
    assert least([], loops=((0,), (1,))) == pytest.approx(36 / 8 / 2)
