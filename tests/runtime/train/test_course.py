"""What a run does at the forks of its course, with stand-ins for graphs, sessions and tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from tests.runtime.conftest import Listener
from tests.support import refusal
from tfdeploy.runtime.records.result import Clock
from tfdeploy.runtime.records.store import BrokenCheckpoint
from tfdeploy.runtime.session.checkpoints import DamagedCheckpoint
from tfdeploy.runtime.train import run as module
from tfdeploy.runtime.train.run import MOST_FRUITLESS, _choose_seed, _Run

LOST = tf.errors.UnavailableError(None, None, "the connection is gone")
OTHER = tf.errors.InvalidArgumentError(None, None, "a label is no class")
REFUSED = RunError(Diagnostic("TFD730", "no number"))


class Target:
    """Tasks that are always there; keeps what it is asked."""

    def __init__(self) -> None:
        self.waited: list[str] = []
        self.ended = 0
        self.monitored: list[str] = []
        self.starters: dict[object, object] = {}
        self.monitor = self

    def wait_for_tasks(self, why: str, check: Callable[[], None]) -> None:
        """Keep what is waited for."""
        check()
        self.waited.append(why)

    def session(self, compiled: object) -> object:
        """Return the graph in place of a session of it."""
        return compiled

    @contextmanager
    def during(self, why: str) -> Iterator[None]:
        """Keep what is monitored."""
        self.monitored.append(why)
        yield

    def watched(self) -> AbstractContextManager[None]:
        """Look for no workers that come or go."""
        return nullcontext()

    def reach(self, engine: Any, check: Callable[[], None]) -> None:
        """Reach all workers, before there is a group of them."""
        check()
        assert not engine.closed

    def prepare(self, engine: Any, stop: Any, say: Callable[[str], None]) -> str:
        """Return a group of workers."""
        del stop
        assert not engine.closed
        say("prepared")
        return "group"

    def end(self, engine: Any, group: object) -> None:
        """Count how often it was ended, which is done while the session is open."""
        assert not engine.closed
        assert group == "group"
        self.ended += 1


class Engine:
    """A session that notices a lost task if there was one."""

    made: list[Engine]

    def __init__(
        self, compiled: object, session: object, saving: object, *, assigned: dict[str, str], starters: object
    ) -> None:
        assert (compiled, session, saving, starters) == ("graph", "graph", "saving", {})
        self.assigned, self.closed, self.activity = assigned, False, None
        self.lost = lambda: True
        self.made.append(self)

    def close(self) -> None:
        """Close it."""
        self.closed = True


class Course:
    """A run whose attempts to train end as they are told to, after some steps each.

    Args:
        attempts: What each attempt ends with, an exception or a result, and the examples of its steps.
    """

    def __init__(self, *attempts: tuple[object, int]) -> None:
        self.attempts = list(attempts)
        self.clock, self.reporter, self.assigned = Clock(), Listener(), {"op": "cpu[0]"}
        self.stop = SimpleNamespace(check=lambda: None)
        self.doing: list[str] = []
        self.activity = SimpleNamespace(doing=self._doing)
        self.recovering: list[bool] = []

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        self.doing.append(what)
        yield

    def _train(self, engine: Any, group: object, streams: object, *, recovering: bool) -> object:
        assert (engine.activity, engine.assigned) == (self.activity, self.assigned)
        assert (group, streams) == ("group", "streams")
        self.recovering.append(recovering)
        end, examples = self.attempts.pop(0)
        self.clock.examples += examples
        if isinstance(end, Exception):
            raise end
        return end

    def train(self, monkeypatch: pytest.MonkeyPatch) -> tuple[object, Target]:
        """Train, and return the result, or the error in place of it, and what the tasks were asked."""
        Engine.made = []
        monkeypatch.setattr(module, "Engine", Engine)
        monkeypatch.setattr(module, "add_saving", lambda _: "saving")
        run: Any = self
        target: Any = Target()
        streams: Any = "streams"
        graph: Any = "graph"
        try:
            return _Run._train_on(run, lambda: (graph, "saving", target), streams), target
        except RunError as fault:
            return fault, target
        finally:
            assert all(each.closed for each in Engine.made)


def test_training_goes_on_after_a_task_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt has its own session; only the first asks for the tasks to start, and recovers nothing."""
    course = Course((LOST, 0), (LOST, 32), ("result", 32))
    result, target = course.train(monkeypatch)
    assert result == "result"
    assert target.waited == ["to start training", *["to go on from the last checkpoint"] * 2]
    assert target.monitored == ["for the next step"] * 3
    assert course.recovering == [False, True, True]
    assert course.doing == ["setting the initial values of the variables"] * 3
    assert course.reporter.notes == [
        "prepared",
        "interrupted: the connection is gone",
        "prepared",
        "interrupted: the connection is gone",
        "prepared",
    ]
    assert (target.ended, len(Engine.made)) == (1, 3)


def test_what_is_no_lost_task_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the graph is told as one of training, and a refusal as what it is, after the tasks."""
    fault, target = Course((OTHER, 0)).train(monkeypatch)
    assert isinstance(fault, RunError)
    assert fault.__cause__ is OTHER
    assert fault.diagnostic.message == "training failed: a label is no class"
    assert (fault.diagnostic.span, fault.diagnostic.notes) == (None, ())
    assert target.ended == 0
    fault, target = Course((REFUSED, 0)).train(monkeypatch)
    assert fault is REFUSED
    assert target.ended == 1


@pytest.mark.parametrize(("examples", "goes_on"), [(0, False), (32, True)])
def test_attempts_without_a_step_come_to_an_end(
    monkeypatch: pytest.MonkeyPatch, examples: int, *, goes_on: bool
) -> None:
    """So many in a row, of which one that makes a step is none."""
    faults = [(LOST, 0)] * (MOST_FRUITLESS - 1) + [(LOST, examples)]
    result, _ = Course(*faults, (LOST, 0), ("result", 0)).train(monkeypatch)
    assert (result == "result") is goes_on
    if not goes_on:
        assert len(Engine.made) == MOST_FRUITLESS


def test_the_seed_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the spec, else that of the newest checkpoint unless it is not gone on from, else a new one."""
    monkeypatch.setattr(module, "draw_seed", lambda: 99)
    newest, older = (SimpleNamespace(manifest=SimpleNamespace(seed=each)) for each in (7, 8))

    def chosen(seed: int | None, resume: Any, *whole: object) -> int:
        spec = ir.Spec(ir.Model("m"), train=ir.Train(seed=seed))
        directory: Any = SimpleNamespace(store=SimpleNamespace(whole=lambda: list(whole)))
        return _choose_seed(spec, directory, resume)

    assert chosen(0, "auto", newest) == 0
    assert chosen(None, "auto", newest, older) == 7
    assert chosen(None, "must", newest) == 7
    assert chosen(None, "never", newest) == 99
    assert chosen(None, "auto") == 99


class Checkpoints:
    """Checkpoints of which one cannot be read."""

    def __init__(self, damaged: object) -> None:
        self.newest = "newest"
        self.damaged = damaged
        self.restored: list[object] = []

    def restore(self, checkpoint: object, warn: Callable[[Diagnostic], None]) -> None:
        """Restore one, unless it is damaged."""
        del warn
        self.restored.append(checkpoint)
        if checkpoint is self.damaged:
            raise DamagedCheckpoint("a checksum is wrong")


@pytest.mark.parametrize(
    ("best", "damaged", "shown", "restored", "reason"),
    [
        (None, None, 60, [], None),
        (60, None, 60, [], None),
        (40, None, 40, ["best"], None),
        (40, "best", 60, ["best", "newest"], "a checksum is wrong"),
        (40, "broken", 60, [], "its manifest is missing"),
    ],
)
def test_a_run_ends_at_its_best_checkpoint(
    tmp_path: Path, best: int | None, damaged: str | None, shown: int, restored: list[str], reason: str | None
) -> None:
    """If there is another than the last; where it cannot be read, the last remains, with a warning."""
    found: Any = SimpleNamespace(prefix=tmp_path / "model.ckpt-40", name="best")
    if damaged == "broken":
        found = BrokenCheckpoint(tmp_path / "model.ckpt-40", 40, "its manifest is missing")
    asked: list[int] = []

    def find(step: int) -> object:
        asked.append(step)
        return found

    run: Any = SimpleNamespace(
        directory=SimpleNamespace(store=SimpleNamespace(find=find)), reporter=Listener()
    )
    checkpoints = Checkpoints(found if damaged == "best" else None)
    tracker = None if best is None else SimpleNamespace(best=SimpleNamespace(step=best))
    trainer: Any = SimpleNamespace(tracker=tracker, step=60, checkpoints=checkpoints)
    assert _Run._go_to_best(run, trainer) == shown
    assert [getattr(each, "name", each) for each in checkpoints.restored] == restored
    assert asked == ([40] if best == 40 else [])
    warnings = [(each.code, each.message) for each in run.reporter.warnings]
    said = f"the checkpoint `{tmp_path / 'model.ckpt-40'}` is passed over: {reason}"
    assert warnings == ([] if reason is None else [("TFD734", said)])


@pytest.mark.parametrize("gone", [None, "spec", "placement", "model", "manifest"])
@pytest.mark.parametrize("finished", [True, False])
def test_a_run_notices_files_that_are_gone(tmp_path: Path, gone: str | None, *, finished: bool) -> None:
    """Its spec, map and newest manifest, and its model once it has finished."""
    names = {
        "spec": "spec.tfdeploy",
        "placement": "placement.json",
        "model": "model.keras",
        "manifest": "model.ckpt-7.json",
    }
    for name, file in names.items():
        if name != gone:
            (tmp_path / file).touch()
    asked: list[str] = []
    directory = SimpleNamespace(**{name: tmp_path / file for name, file in names.items()})
    run: Any = SimpleNamespace(directory=directory, guard=SimpleNamespace(span=None))
    trainer: Any = SimpleNamespace(
        history=SimpleNamespace(require=lambda: asked.append("history")),
        checkpoints=SimpleNamespace(newest=SimpleNamespace(prefix=tmp_path / "model.ckpt-7")),
    )
    if gone is None or (gone == "model" and not finished):
        _Run._require_files(run, trainer, finished=finished)
    else:
        found = refusal(_Run._require_files, run, trainer, finished=finished)
        assert str(tmp_path / names[gone]) in found.message
    assert asked == ["history"]


@pytest.mark.parametrize(
    ("missing", "is_lost"), [(None, True), (tf.errors.CancelledError(None, None, ""), False)]
)
def test_what_is_there_is_saved_after_a_worker_was_missing(
    missing: Exception | None, *, is_lost: bool
) -> None:
    """At the step that the group has reached; if that cannot be had either, there is nothing to save."""
    saved: list[tuple[int, int]] = []

    def counted() -> tuple[int, int]:
        if missing is not None:
            raise missing
        return 12, 384

    trainer: Any = SimpleNamespace(group=SimpleNamespace(counted=counted), step=10, examples=320)
    trainer.save = lambda: saved.append((trainer.step, trainer.examples))
    _Run._save_what_is_there(trainer)
    assert saved == ([(12, 384)] if is_lost else [])
    alone: Any = SimpleNamespace(group=None)
    _Run._save_what_is_there(alone)
