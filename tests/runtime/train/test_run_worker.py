"""A run of a worker that is not the chief, whose steps are made by somebody else."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from compiler.pipeline import make_plan
from tests.support import spec_of
from tfdeploy.runtime.plans import RunOptions
from tfdeploy.runtime.show.reporting import Reporter
from tfdeploy.runtime.train import run as module
from tfdeploy.runtime.watchdog import Activity

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEC = """
tfdeploy = 1
model "m" {
  x = input(float32, [2])
  y = input(float32, [1])
  out = x -> Dense(1)
  loss = [y, out] -> MeanSquaredError()
}
data { train = synthetic(10, x = feature(float32, [2]), y = feature(float32, [1])) }
update { optimizer = SGD(0.1) }
train { steps = 4, seed = 3, directory = "runs/mine" }
"""


def test_a_worker_tells_the_step_that_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result has that and the seconds of compiling; what else a run comes to, the chief tells."""
    told: list[str] = []
    read: list[Any] = []

    class Listener(Reporter):
        def note(self, text: str) -> None:
            told.append(text)

    class Loop:
        def __init__(self, compiled: str, stream: Any, target: str, *_: Any) -> None:
            assert (compiled, target) == ("graph", "target")
            read.append(stream.options)

        def train(self) -> int:
            return 1234

    @contextmanager
    def target_for(*_: Any) -> Iterator[Any]:
        yield lambda _: nullcontext("target")

    monkeypatch.setattr(module, "target_for", target_for)
    monkeypatch.setattr(module, "graph_of", lambda *_, **__: "graph")
    monkeypatch.setattr(module, "worker_loop", Loop)
    stop: Any = SimpleNamespace(check=lambda: told.append("checked"))
    activity = Activity()
    options = RunOptions(reporter=Listener())
    result = module.run_worker(make_plan(spec_of(SPEC)), options, stop, activity)
    assert (result.status, result.steps, result.loss, result.directory) == (
        "finished",
        1234,
        None,
        "runs/mine",
    )
    assert (result.metrics, result.examples_per_second, result.model) == ({}, None, None)
    assert result.seconds.compile > 0
    assert result.seconds.first_step is None
    assert [(each.training, each.seed) for each in read] == [(True, 3)]
    assert list(activity.causes) == ["train"]
    assert told[0] == "checked"
    assert told[1].startswith("compiled in ")
    assert told[2:] == ["checked", "training is over at step 1,234"]
