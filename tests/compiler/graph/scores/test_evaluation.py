"""The evaluation tower: where it is, which weights it reads, and whose penalty it reports."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.graph.compiled import CompiledGraph
from tests.graphs import graph_of
from tests.models import model


def compiled(place: str = "", **overrides: Any) -> CompiledGraph:
    """Return the graph of two clones on three devices."""
    return graph_of(model("dense", clones=2, devices=3, batch=4, place=place, **overrides))


@pytest.mark.parametrize(
    ("overrides", "own"),
    [
        ({"model__regularize": "L2(0.1)"}, False),
        ({"model__regularize": "L2(0.1)", "update__ema": "0.9"}, True),
        ({"update__ema": "0.9"}, False),  # there is no penalty
    ],
)
def test_the_penalty_is_that_of_the_weights_that_are_evaluated(
    overrides: dict[str, str], *, own: bool
) -> None:
    """It is not computed again if training reports that of the same weights."""
    graph = compiled(**overrides)
    found = graph.evaluation.regularization
    assert (found is not graph.regularization) == own
    if own:
        assert (found.op.name, found.op.type, len(found.op.inputs)) == (
            "evaluation/regularization",
            "AddN",
            2,
        )


@pytest.mark.parametrize(("place", "device"), [("", "cpu[0]"), ("evaluation -> cpu[2]", "cpu[2]")])
def test_it_is_where_the_rule_says(place: str, device: str) -> None:
    """By default with clone 0. All that it computes has its role, and no clone."""
    graph = compiled(place)
    entries = {
        name: each for name, each in graph.ledger.entries.items() if name.startswith("evaluation/logits/")
    }
    assert len(entries) > 3
    assert {each.device.ref for name, each in entries.items() if not name.endswith("/read")} == {device}
    assert {(each.role, each.clone) for each in entries.values()} == {("evaluation", None)}
    count = graph.evaluation.count
    assert (count.dtype.name, count.shape.rank) == ("int64", 0)
    assert graph.ledger.entries[count.op.name].device.ref == device
