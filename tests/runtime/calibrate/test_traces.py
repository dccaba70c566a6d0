"""Traces: the kernels of a step by the ops that they belong to, and their medians over steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfdeploy.runtime.calibrate.rounds import TracedSteps

KNOWN = frozenset({"a", "rnn/while", "rnn/while/limit", "b/c"})


def traced(*kernels: tuple[str, int]) -> Any:
    """Return RunMetadata with kernels of so many microseconds."""
    nodes = [
        SimpleNamespace(node_name=name, op_start_rel_nanos=100, op_end_rel_nanos=100 + 1000 * time)
        for name, time in kernels
    ]
    return SimpleNamespace(step_stats=SimpleNamespace(dev_stats=[SimpleNamespace(node_stats=nodes)]))


def test_kernels_count_for_their_op() -> None:
    """What a loop was replaced by counts for the loop; what brings tensors to other devices for nothing."""
    times = TracedSteps(KNOWN)
    times.add(traced(("a", 5), ("rnn/while/body/add", 2), ("rnn/while/body/mul", 3), ("a/_7", 50)))
    found = times.medians()
    assert set(found) == {"a", "rnn/while"}
    assert found["a"] == pytest.approx((5e-6, 1))
    assert found["rnn/while"] == pytest.approx((5e-6, 2))


def test_medians_are_over_steps() -> None:
    """A slow step changes nothing; an op that did not run in every step has a part of a kernel."""
    times = TracedSteps(KNOWN)
    for time in (5, 6, 700):
        times.add(traced(("a", time)))
    times.add(traced(("a", 6), ("b/c", 1)))
    found = times.medians()
    assert found["a"] == pytest.approx((6e-6, 1))
    assert found["b/c"] == pytest.approx((0, 0.25))
