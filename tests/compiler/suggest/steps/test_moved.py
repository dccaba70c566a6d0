"""Steps whose variables are elsewhere, from one that was written, against steps that are written anew."""

from __future__ import annotations

import pytest

from compiler.graph.build import compile_graph
from compiler.step.read.work import timed_step
from compiler.suggest.steps.moved import move_step
from compiler.suggest.steps.origin import Origin
from compiler.suggest.steps.written import write_step
from tests.compiler.suggest.steps.test_written import KINDS, SHARDED, built, plan_of
from tfdeploy.suggesting.reading import origin_of


@pytest.fixture(scope="module")
def origin() -> Origin:
    """Return the step of the graph with all variables on the CPU."""
    found = origin_of(*built("whole"))
    assert found is not None
    return found


RULES = (
    "gpu[1]",
    "balanced(gpu[*])",
    "round_robin(gpu[*])",
    'gpu[2]\n  variables("hidden/*") -> gpu[0]',
    "gpu[2]\n  slots -> gpu[3]",
    "gpu[2]\n  updates -> gpu[1]",
)


def test_means_of_statistics_move_with_them() -> None:
    """They are made on the device of the statistic."""
    graph = compile_graph(plan_of(batch_norm="mean"), seed=0)
    found = origin_of(graph, timed_step(graph.step))
    assert found is not None
    plain = write_step(found, plan_of(batch_norm="mean"))
    plan = plan_of(variables="gpu[1]", batch_norm="mean")
    assert move_step(found, plain, plan) == write_step(found, plan)


def test_a_moved_step_is_that_which_is_written(origin: Origin) -> None:
    """Whole variables take their reads, slots, sums and updates with them, in any order of moves."""
    for extra in ("", "\n  slots -> gpu[3]", "\n  updates -> gpu[1]"):
        start = plan_of(variables=f"cpu[0]{extra}")
        plain = write_step(origin, start)
        for rule in RULES:
            plan = plan_of(variables=rule)
            moved, written = move_step(origin, plain, plan), write_step(origin, plan)
            alike = extra.strip() == rule.partition("\n")[2].strip() or ("variables(" in rule and not extra)
            assert (moved is not None) == alike, (extra, rule)
            if moved is not None:
                assert moved == written
                assert moved.work.ops != plain.work.ops
                plain = moved


@pytest.mark.parametrize(
    "changes",
    [
        {"variables": SHARDED},
        {"variables": "replicated"},
        {"pack": "1KiB"},
        {"aggregate": "tree"},
        {"clones": "gpu[0..1]"},
    ],
)
def test_a_step_with_other_ops_is_not_moved(origin: Origin, changes: dict[str, str]) -> None:
    """Pieces, copies, buckets, other sums and other clones make other ops, in the one or in the other."""
    plain, other = write_step(origin, plan_of()), plan_of(**changes)
    assert move_step(origin, plain, other) is None
    assert move_step(origin, write_step(origin, other), plan_of()) is None
    assert KINDS["whole"] == {}
