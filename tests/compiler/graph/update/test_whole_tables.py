"""When updates of whole tables take more of a step than its towers, by what is known before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from compiler.graph.optimizers.groups import tables_dominate
from compiler.graph.tower.template import WeightInfo


@pytest.mark.parametrize(
    ("table", "other", "examples", "by_rows", "dominate"),
    [
        (1000, 9, 100, False, True),
        (1000, 10, 100, False, False),  # as much is not more
        (1000, 11, 100, False, False),
        (1000, 9, 100, True, False),  # an update writes the rows of a batch only
        (1000, 0, 100, False, True),
    ],
)
def test_bytes_of_tables_are_compared_with_those_of_towers(
    table: int, other: int, examples: int, *, by_rows: bool, dominate: bool
) -> None:
    """A tower goes through its other weights for every example, and an update once through its table."""
    sizes = {"table": table, "kernel": other}
    weights = {
        name: WeightInfo(name, (size,), "int8", trainable=True, bytes=size, initializer=None)
        for name, size in sizes.items()
    }
    rules: Any = SimpleNamespace(of=lambda name: SimpleNamespace(by_rows=by_rows and name == "table"))
    assert tables_dominate(weights, {"table"}, rules, examples) == dominate
    assert not tables_dominate(weights, set(), rules, examples)
