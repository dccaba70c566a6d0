"""Which examples each part of a graph is fed with, of those of all steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tfdeploy.runtime.verify.trial import FedGraph


@pytest.mark.parametrize(
    ("before", "total", "rows"),
    [
        (0, 0, [[0, 1, 5, 6, 10, 11], [2, 3, 4, 7, 8, 9, 12, 13, 14]]),
        (1, 7, [[1, 2, 8, 9], [3, 4, 5, 10, 11, 12]]),
    ],
)
def test_each_pipe_takes_the_next_part_of_every_step(
    monkeypatch: pytest.MonkeyPatch, before: int, total: int, rows: list[list[int]]
) -> None:
    """A graph alone has all examples of a step, and one beside others begins after theirs."""
    fed: list[tuple[str, list[int], list[int]]] = []

    def start(_: Any, session: Any, pipe: Any, arrays: Any, dataset_of: Any) -> None:
        assert (session, dataset_of.args) == ("session", (pipe.size,))
        fed.append((pipe.name, arrays["x"].tolist(), arrays["y"].tolist()))

    monkeypatch.setattr(FedGraph, "_start", start)
    pipes = [
        SimpleNamespace(name=name, examples=count, size=at)
        for at, (name, count) in enumerate((("a", 2), ("b", 3)))
    ]
    graph: Any = FedGraph(SimpleNamespace(train_inputs=pipes))  # type: ignore[arg-type]  # what it needs
    graph.train_on("session", {"x": np.arange(15), "y": -np.arange(15)}, before, total)
    assert fed == [(name, found, [-each for each in found]) for name, found in zip("ab", rows, strict=True)]
