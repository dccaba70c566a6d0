"""What the training loop does after which step: lines of the history, evaluations and checkpoints."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import classifier, refusal
from tfdeploy.runtime.records.result import Clock
from tfdeploy.runtime.session.engine import StepReport
from tfdeploy.runtime.session.steps import StepResult
from tfdeploy.runtime.train import loop as module
from tfdeploy.runtime.train.evaluation import BestTracker
from tfdeploy.runtime.train.loop import Trainer

EVERY = {"log_every": "3", "evaluate_every": "4", "checkpoint_every": "5"}


class Loop:
    """A training loop whose steps, evaluations and checkpoints only write down that they are made."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        moves: tuple[int, ...] = (),
        losses: tuple[float, ...] = (),
        settled: tuple[StepResult, ...] = (),
        tracker: BestTracker | None = None,
        better: tuple[int, ...] = (),
        start: int = 0,
        alone: bool = False,
        **train: str,
    ) -> None:
        self.done: list[str] = []
        self.asked: list[tuple[bool, int]] = []
        self.lines: list[Any] = []
        self.shown: list[int] = []
        self.moves, self.losses, self.settled = list(moves), list(losses), list(settled)
        self.better = better
        self.stop_at: int | None = None
        spec = classifier(**{f"train__{name}": value for name, value in {**EVERY, **train}.items()})
        monkeypatch.setattr(module, "make_steps", lambda _: self)
        self.stop: Any = SimpleNamespace(received=None)
        self.checkpoints: Any = SimpleNamespace(save=self.saved, best_step=None, last_step=77)
        engine: Any = SimpleNamespace(
            compiled=SimpleNamespace(
                plan=SimpleNamespace(spec=spec, global_batch=10), train_loops=("loop",) if alone else ()
            ),
            activity=SimpleNamespace(doing=lambda *_, **__: nullcontext(), last_step=None, examples=0),
            lost=None,
            progress=lambda: None,
            publish=lambda: self.done.append("published"),
            learning_rates=lambda: {"a/*": 0.5},
        )
        evaluations: Any = SimpleNamespace(watched="test", watch=self.watch, tracker=tracker)
        history: Any = SimpleNamespace(append=self.lines.append, sync=lambda: self.done.append("synced"))
        reporter: Any = SimpleNamespace(stepped=self.shown.append, logged=lambda _: None)
        self.searched: list[tuple[str, int]] = []
        stream: Any = SimpleNamespace(not_finite=lambda *given: self.searched.append(given))
        self.trainer = Trainer(
            engine=engine,
            stream=stream,
            evaluations=evaluations,
            checkpoints=self.checkpoints,
            history=history,
            events=SimpleNamespace(write=lambda *_: None),  # type: ignore[arg-type]
            reporter=reporter,
            stop=self.stop,
            clock=Clock(),
            after_first=lambda: self.done.append("first"),
            step=start,
            examples=0,
        )

    stride = 1

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Make a step of ten examples."""
        self.asked.append((logged, until))
        if self.trainer.step + 1 == self.stop_at:
            self.stop.received = "SIGINT"
        loss = self.losses.pop(0) if self.losses else 0.25
        report = StepReport(0.5, loss, {}, {"b/*": 0.25, "c/*": 0.125})
        return StepResult(10, loss, report if logged else None, steps=self.moves.pop(0) if self.moves else 1)

    def settle(self) -> list[StepResult]:
        """Return the steps that have begun meanwhile, once."""
        found, self.settled = self.settled, []
        return found

    def close(self) -> None:
        """Make no more steps."""
        self.done.append("closed")

    def watch(self, step: int) -> bool:
        """Evaluate."""
        self.done.append(f"evaluated {step}")
        return step in self.better

    def saved(self, step: int, examples: int) -> float:
        """Write a checkpoint."""
        assert examples == 10 * len(self.shown)
        self.done.append(f"saved {step}")
        return 0.5

    @property
    def deeds(self) -> list[str]:
        """Return what was done, without what goes with every checkpoint."""
        return [each for each in self.done if each not in {"published", "synced"}]


def test_everything_happens_after_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps may begin up to the next pause; what is due with the last step is done after the loop."""
    loop = Loop(monkeypatch)
    loop.trainer.train(10)
    assert loop.deeds == ["first", "evaluated 4", "saved 5", "evaluated 8", "closed", "saved 10"]
    assert loop.done.count("published") == loop.done.count("synced") == 2
    assert [until for _, until in loop.asked] == [4, 4, 4, 4, 5, 8, 8, 8, 10, 10]
    assert [at for at, (logged, _) in enumerate(loop.asked, 1) if logged] == [3, 6, 9, 10]
    assert [line.step for line in loop.lines] == [3, 6, 9, 10]
    assert loop.shown == list(range(1, 11))
    line = loop.lines[0]
    assert (line.split, line.loss, line.data_loss, line.worker) == ("train", 0.5, 0.25, None)
    assert (line.learning_rate, line.learning_rates) == (0.25, {"b/*": 0.25, "c/*": 0.125})
    assert loop.trainer.last_record is loop.lines[-1]
    assert (loop.trainer.step, loop.trainer.examples, loop.trainer.clock.checkpoint) == (10, 100, 1.0)
    assert loop.trainer.clock.examples == 90  # the first step has a time of its own
    assert loop.trainer.clock.first_step is not None
    assert loop.trainer.engine.activity.last_step == 10


def test_a_run_that_goes_on_makes_up_for_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one is due after its first step; and counts the steps that may begin from there."""
    loop = Loop(monkeypatch, start=4)
    loop.trainer.train(6)
    assert loop.deeds == ["evaluated 4", "first", "saved 5", "closed", "saved 6"]
    assert [until for _, until in loop.asked] == [1, 2]
    later = Loop(monkeypatch, start=5)
    later.trainer.train(6)
    assert later.deeds == ["first", "closed", "saved 6"]


def test_a_signal_ends_the_loop_after_a_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a checkpoint, and without an evaluation, which takes long."""
    tracker = BestTracker("lowest", "loss", None, tmp_path / "best.json")
    loop = Loop(monkeypatch, tracker=tracker)
    loop.stop_at = 3
    loop.trainer.train(10)
    assert loop.deeds == ["first", "closed", "saved 3"]


def test_the_best_evaluation_keeps_its_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is written before the file that names it, and the run ends when the patience is exhausted."""
    tracker = BestTracker("lowest", "loss", 2, tmp_path / "best.json")
    loop = Loop(monkeypatch, tracker=tracker, better=(4,))
    monkeypatch.setattr(BestTracker, "save", lambda _: loop.done.append("best saved"))
    loop.trainer.train(7)
    assert loop.checkpoints.best_step == 4
    assert loop.deeds == [
        "first", "evaluated 4", "saved 4", "best saved", "saved 5", "closed", "evaluated 7", "saved 7",
    ]  # fmt: skip
    tracker.since = 2
    loop.trainer.train(9)
    assert loop.deeds[8:] == ["closed", "evaluated 7", "saved 7"]


def test_other_workers_count_into_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that was skipped over is logged with the next, and none is logged twice."""
    loop = Loop(monkeypatch, moves=(2, 2, 0, 3), alone=True, evaluate_every="100", checkpoint_every="100")
    loop.trainer.train(8)
    assert [logged for logged, _ in loop.asked] == [False, True, False, False, True]
    assert [line.step for line in loop.lines] == [4, 8]
    assert loop.shown == [2, 4, 4, 7, 8]
    assert (loop.lines[0].learning_rate, loop.lines[0].learning_rates) == (0.5, None)


def test_steps_that_have_begun_count_before_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an evaluation or a checkpoint is of the step that it says."""
    more = StepResult(10, 0.25, StepReport(0.5, 0.25, {}, {}))
    loop = Loop(monkeypatch, settled=(more, more), evaluate_every="1")
    loop.trainer.train(4)
    assert loop.deeds == ["first", "evaluated 3", "closed", "saved 4"]
    assert [line.step for line in loop.lines] == [3, 4]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_run(monkeypatch: pytest.MonkeyPatch, loss: float) -> None:
    """Its step has not been made, and the newest checkpoint is named."""
    loop = Loop(monkeypatch, losses=(0.5, loss))
    found = refusal(loop.trainer.train, 10)
    assert found.message.startswith("the loss of step 2 is ")
    assert found.notes == ("the checkpoint of step 77 is kept",)
    assert (loop.trainer.step, loop.deeds) == (1, ["first", "closed"])
    assert loop.searched == [(f"the loss of step 2 is {loss}", 30)]  # what may have been read for two steps
