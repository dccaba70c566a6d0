"""What graphs are compared with, on towers that only hold numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dsl import ir
from tfdeploy.runtime.verify import references

WEIGHTS = {
    "kernel": SimpleNamespace(trainable=True, dtype="float32"),
    "mean": SimpleNamespace(trainable=False, dtype="float32"),
}


class Tower:
    """A tower that trains nothing."""

    compiled = SimpleNamespace(weights=WEIGHTS, variables={})

    def __init__(self, kernel: float, mean: float) -> None:
        self.held = {"kernel": kernel, "mean": mean}

    def step_parts(self) -> list[tuple[float, float]]:
        """Return a loss and its weight."""
        return [(1.0, 1.0)]

    def values(self) -> dict[str, float]:
        """Return all weights."""
        return dict(self.held)

    def assign(self, values: dict[str, float]) -> None:
        """Take other weights."""
        self.held = dict(values)


@pytest.mark.parametrize(("statistics", "mean"), [("first", 10.0), ("mean", 17.5)])
def test_averages_are_weighted_by_examples(
    monkeypatch: pytest.MonkeyPatch, statistics: Any, mean: float
) -> None:
    """Clones of 2 and of 6 examples; statistics are those of the first clone, unless means are asked for."""
    towers = [Tower(1.0, 10.0), Tower(5.0, 20.0)]
    monkeypatch.setattr(references, "_towers", lambda *_: towers)
    spec = ir.Spec(ir.Model("m"), update=ir.Update(batch_norm=statistics))
    setup: Any = None
    found = references.averaged_towers(setup, spec, (2, 6), references.AVERAGE_EVERY, slots=False)
    assert found.losses == (1.0,) * references.AVERAGE_EVERY
    assert [each.held for each in towers] == [{"kernel": 4.0, "mean": mean}] * 2
