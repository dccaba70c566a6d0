"""What the batches of an evaluation add up to, and when a run evaluates which split."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import frozen

from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.result import Clock, Scores
from tfdeploy.runtime.train import evaluation as module
from tfdeploy.runtime.train.evaluation import BestTracker, Evaluations, Stopped, evaluate

Batch = tuple[int, list[list[float]], dict[str, list[Any]]]
PLAIN: list[Batch] = [
    (4, [[2.0]], {"m": [np.float32(1), np.array([1, 2])]}),
    (2, [[5.0]], {"m": [np.float32(2), np.array([10, 20])]}),
]


@frozen
class State:
    """A tensor of the state of a metric."""

    dtype: tf.DType


class Told:
    """An engine whose batches a test has made up.

    If `together` is given, its second batch and those after it wait until so many are evaluated at a time.
    """

    def __init__(
        self, batches: list[Batch], *, deterministic: bool = True, together: int | None = None
    ) -> None:
        self.batches, self.waiting = batches, list(batches)
        self.numbers = count(1)
        self.together = range(2, 2 + together) if together is not None else ()
        self.barrier = threading.Barrier(together or 1)
        self.threads: list[int] = []
        self.fed: list[Any] = []
        self.stream: Any = SimpleNamespace(
            split=SimpleNamespace(source=SimpleNamespace(span=None)), explain=lambda _: None
        )
        metric = SimpleNamespace(states=(State(tf.float32), State(tf.int64)), result="result")
        spec = SimpleNamespace(train=SimpleNamespace(deterministic=deterministic))
        evaluated = SimpleNamespace(pipe="pipe", regularization="penalty", metrics={"m": metric})
        self.compiled = SimpleNamespace(evaluation=evaluated, plan=SimpleNamespace(spec=spec))
        self.session = SimpleNamespace(run=self.run)
        self.most_at_once = 0

    def feed(self, pipe: Any, stream: Any, *, training: bool) -> None:
        """Begin anew."""
        assert (pipe, stream, training) == ("pipe", self.stream, False)
        self.waiting = list(self.batches)

    def run(self, fetched: str, feed: Any = None) -> Any:
        """Return the penalty, or the sums that make up a metric."""
        if fetched == "penalty":
            return np.float32(0.5)
        self.fed = list(feed.values())
        return [self.fed[0], *self.fed[1]]

    def evaluate_batch(self) -> Batch:
        """Return the next batch."""
        self.threads.append(threading.get_ident())
        alive = {each.ident for each in threading.enumerate()}
        self.most_at_once = max(self.most_at_once, len(alive & set(self.threads)))
        if next(self.numbers) in self.together:
            self.barrier.wait(60)
        if not self.waiting:
            raise tf.errors.OutOfRangeError(None, None, "the end")
        return self.waiting.pop(0)


def scores_of(batches: list[Batch], **options: Any) -> Scores:
    """Return the scores of an evaluation of these batches."""
    engine: Any = Told(batches, **options)
    return evaluate(engine, engine.stream)


def test_means_count_every_example_once() -> None:
    """Whatever the sizes of the batches; states of metrics are added up, and keep their types."""
    found = scores_of(PLAIN)
    assert found == Scores(3.5, 3.0, {"m[0]": 3.0, "m[1]": 11.0, "m[2]": 22.0}, 6, 0.0)
    assert found.seconds > 0
    engine: Any = Told(PLAIN)
    evaluate(engine, engine.stream)
    assert [each.dtype for each in engine.fed] == [np.float32, np.int64]


@pytest.mark.parametrize(
    ("batches", "loss"),
    [
        ([(4, [[2.0, 0.5]]), (2, [[6.0, 1.0]])], (4 * 2 + 2 * 6) / (4 * 0.5 + 2)),
        ([(4, [[2.0, 0.5], [1.0]]), (4, [[6.0, 1.0], [3.0]])], 8 / 1.5 + 2),
        ([(4, [[0.0, 0.0]])], 0.0),
    ],
)
def test_a_masked_loss_is_divided_by_what_the_mask_has_left(
    batches: list[tuple[int, list[list[float]]]], loss: float
) -> None:
    """Over all batches at once; if the mask has left nothing, there is no loss."""
    states = PLAIN[0][2]
    assert scores_of([(size, parts, states) for size, parts in batches]).data_loss == pytest.approx(loss)


@pytest.mark.parametrize(("deterministic", "most"), [(True, 1), (False, 3)])
def test_how_many_batches_are_evaluated_at_a_time(
    monkeypatch: pytest.MonkeyPatch, most: int, *, deterministic: bool
) -> None:
    """The first is alone, because it is traced; then as many as use all cores, unless order matters."""
    monkeypatch.setattr(module, "batches_at_once", lambda _: 3)
    together = None if deterministic else most
    engine: Any = Told([PLAIN[0]] * 9, deterministic=deterministic, together=together)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(len(engine.threads))
        return False

    assert evaluate(engine, engine.stream, stop=stop).examples == 36
    assert asked[:2] == [0, 1]
    assert len(engine.threads) in range(10, 10 + most)
    assert engine.most_at_once <= most
    with pytest.raises(Stopped):
        evaluate(engine, engine.stream, stop=lambda: True)


def line(step: int, split: Any) -> HistoryRecord:
    """Return a line of the history."""
    return HistoryRecord(step, split, 1.0, 1.0)


class Run:
    """The evaluations of a run whose engine has the same scores each time."""

    def __init__(
        self, *splits: str, tracker: BestTracker | None = None, earlier: tuple[Any, ...] = ()
    ) -> None:
        self.done: list[str] = []
        self.lines: list[HistoryRecord] = []
        self.curves: list[HistoryRecord] = []
        self.shown: list[tuple[str, int]] = []
        engine: Any = Told(PLAIN)
        engine.publish = lambda: self.done.append("published")
        engine.activity = SimpleNamespace(doing=lambda *_: nullcontext())
        engine.lost = None
        history: Any = SimpleNamespace(records=list(earlier), append=self.lines.append)
        events: Any = SimpleNamespace(write=self.curves.append)
        reporter: Any = SimpleNamespace(
            evaluated=lambda record, size: self.shown.append((record.split, size))
        )
        self.stop: Any = SimpleNamespace(received=None)
        streams = dict.fromkeys(splits, engine.stream)
        self.clock = Clock()
        self.own = Evaluations(engine, streams, history, events, reporter, self.stop, self.clock, tracker)


@pytest.mark.parametrize(
    ("splits", "watched"),
    [
        (("train",), None),
        (("train", "test"), "test"),
        (("train", "validation"), "validation"),
        (("train", "test", "validation"), "validation"),
    ],
)
def test_the_split_that_is_watched(splits: tuple[str, ...], watched: str | None) -> None:
    """Validation, for which it is there; at the end all that there are."""
    run = Run(*splits)
    assert run.own.watched == watched
    assert run.own.watch(4) is False
    assert [each.split for each in run.lines] == ([watched] if watched is not None else [])
    run.own.complete(4)
    assert sorted(each.split for each in run.lines) == sorted(set(splits) - {"train"})
    run.own.complete(5)
    assert len(run.lines) == 2 * len(set(splits) - {"train"})


def test_an_evaluation_is_written_down_once(tmp_path: Path) -> None:
    """In the history, the curves and the terminal; one of an earlier process is only shown again."""
    tracker = BestTracker("lowest", "loss", None, tmp_path / "best.json")
    run = Run("test", tracker=tracker, earlier=(line(4, "test"), line(6, "train")))
    assert run.own.watch(4) is False
    assert (run.done, run.shown) == ([], [])
    assert run.own.watch(6) is True
    (record,) = run.lines
    assert run.curves == run.lines
    assert (record.step, record.split, record.loss, record.data_loss) == (6, "test", 3.5, 3.0)
    assert record.metrics == {"m[0]": 3.0, "m[1]": 11.0, "m[2]": 22.0}
    assert record.examples_per_second == pytest.approx(6 / run.clock.evaluate)
    assert run.shown == [("test", 6)]
    assert run.own.watch(6) is False  # it has been made
    assert run.own.watch(7) is False  # and is no better
    assert tracker.best is not None
    assert (tracker.best.step, tracker.since, run.done) == (6, 1, ["published"] * 2)
    assert run.own.evaluate("test", 4) is not None
    assert ([each.step for each in run.lines], run.shown) == ([6, 7], [("test", 6)] * 3)


def test_a_signal_ends_an_evaluation(tmp_path: Path) -> None:
    """Which then has no scores, and is not the best."""
    tracker = BestTracker("lowest", "loss", None, tmp_path / "best.json")
    run = Run("test", tracker=tracker)
    run.stop.received = "SIGINT"
    assert run.own.watch(6) is False
    assert (run.lines, run.own.scores, tracker.best, run.clock.evaluate) == ([], {}, None, 0.0)
