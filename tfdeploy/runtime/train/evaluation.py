"""Evaluation: one pass over all examples of a split, the evaluations of a run, and the best of them.

States of metrics and losses are added up over batches as float64, so that neither the size of the batches
nor a last, smaller batch changes the result.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import tensorflow as tf
from attrs import define, field

from compiler.graph.compiled import MetricTensors
from compiler.graph.session_options import batches_at_once
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import running as errors
from dsl.files.regular import system_reason
from dsl.files.typed_json import BadRecord, read_record, to_json
from dsl.ir import SPLITS, SplitName
from tfdeploy.data import Stream
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.records.history import History, HistoryRecord
from tfdeploy.runtime.records.result import LOSS, Best, Clock, Goal, Scores, goal_and_score
from tfdeploy.runtime.session.engine import Engine, named
from tfdeploy.runtime.session.faults import located_examples
from tfdeploy.runtime.show.reporting import Reporter
from tfdeploy.runtime.stop import StopSignals, in_background
from tfdeploy.runtime.train.events import Events


@define
class BestTracker:
    """Compares the evaluations of one split."""

    goal: Goal  # whether the highest or the lowest value is the best
    score: str  # the name of the score: `loss`, or a metric
    # The number of evaluations without a better one after which training ends; None for no limit.
    patience: int | None
    path: Path
    best: Best | None = None
    since: int = 0

    @classmethod
    def of(cls, train: ir.Train, path: Path) -> Self | None:
        """Return the tracker that a spec asks for, with the file `path`; None if it asks for none."""
        return None if train.best is None else cls(*goal_and_score(train.best), train.patience, path)

    @property
    def is_over(self) -> bool:
        """Whether training is to end because the patience is exhausted."""
        return self.patience is not None and self.since >= self.patience

    def compare(self, step: int, loss: float, metrics: Mapping[str, float]) -> bool:
        """Compare an evaluation with the best one, and return whether it is better."""
        value = {LOSS: loss, **metrics}.get(self.score, math.nan)
        if not self._beats(value):
            self.since += 1
            return False
        self.best = Best(step, self.goal, self.score, value)
        self.since = 0
        return True

    def _beats(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self.best is None:
            return True
        return value > self.best.value if self.goal == "highest" else value < self.best.value

    def save(self) -> None:
        """Write the best evaluation to its file, once its checkpoint is on the disk."""
        if self.best is not None:
            write_atomically(self.path, to_json(self.best) + "\n")

    def resume(
        self,
        last_step: int,
        records: list[HistoryRecord],
        split: SplitName,
        warn: Callable[[Diagnostic], None],
    ) -> None:
        """Continue with the best evaluation that an earlier process has kept.

        One of another score, or of a step that has to be made again, is ignored.
        """
        found = read_best(self.path, warn)
        if found is None:
            return
        if (found.goal, found.score) == (self.goal, self.score) and found.step <= last_step:
            self.best = found
            self.since = sum(each.split == split and each.step > found.step for each in records)


def read_best(path: Path, warn: Callable[[Diagnostic], None]) -> Best | None:
    """Return the best evaluation that a run has kept in the file `path`.

    Returns:
        The evaluation; None if there is no file, or if it cannot be read, in which case `warn` is called.
    """
    try:
        return read_record(path, Best)
    except FileNotFoundError:
        return None
    except (BadRecord, OSError) as fault:
        reason = f"cannot be read: {system_reason(fault)}" if isinstance(fault, OSError) else str(fault)
        warn(errors.record_damaged(path=str(path), reason=reason))
    return None


EVALUATED = tuple(name for name in SPLITS if name != "train")

Parts: TypeAlias = Sequence[Sequence[Any]]
"""The parts of the loss of a batch: for each its value and, if it is to be divided by one, a weight."""


class Stopped(Exception):  # noqa: N818  # it is no fault
    """An evaluation has ended early because the run is to stop."""


@define
class _Sums:
    """Sums over the batches so far: examples, by part of the loss value and weight, and states by metric."""

    examples: int = 0
    losses: Any = 0.0
    states: dict[str, list[Any]] = field(factory=dict)

    @property
    def empty(self) -> frozenset[str]:
        """The scores for which no example counts: their weights, or all of their states, are zero."""
        loss = {LOSS} if not any(weight for _, weight in self.losses) else set()
        states = {name for name, each in self.states.items() if len(each) > 1 and not any(map(np.any, each))}
        return frozenset(loss | states)

    @property
    def data_loss(self) -> float:
        """The mean over all examples, or over what the masks have left of them."""
        return float(sum(value / weight if weight else 0.0 for value, weight in self.losses))

    def add(self, count: int, losses: Parts, states: Mapping[str, list[Any]]) -> None:
        self.examples += count
        plain = (1.0,)  # the weight of what is a mean over examples
        self.losses += count * np.asarray([[*part, *plain][:2] for part in losses], np.float64)
        for name, parts in states.items():
            wide = [np.asarray(each, np.float64) for each in parts]
            before = self.states.get(name)
            self.states[name] = wide if before is None else [a + b for a, b in zip(before, wide, strict=True)]


def evaluate(engine: Engine, stream: Stream, *, stop: Callable[[], bool] = lambda: False) -> Scores:
    """Evaluate one pass over a stream.

    Raises:
        RunError: If there is no example any more.
        Stopped: If `stop` has returned true.
    """
    evaluation = engine.compiled.evaluation
    begun = time.perf_counter()
    engine.feed(evaluation.pipe, stream, training=False)
    sums = _Sums()
    for batch in _batches(engine, stop):
        sums.add(*batch)
    if not sums.examples:
        raise RunError(stream.nothing())
    data_loss = sums.data_loss
    regularization = float(engine.session.run(evaluation.regularization))
    metrics = named(
        (name, _result(engine, each, sums.states[name])) for name, each in evaluation.metrics.items()
    )
    empty = sums.empty
    if data_loss == 0 and LOSS not in empty and _weigh_nothing(engine, stream):
        empty |= {LOSS}
    spent = time.perf_counter() - begun
    return Scores(data_loss + regularization, data_loss, metrics, sums.examples, spent, empty)


def _weigh_nothing(engine: Engine, stream: Stream) -> bool:
    """Whether all losses weigh examples by inputs that are zero in all of them, which no sum has told."""
    model = engine.compiled.plan.model
    inputs = {each.value: each.name for each in model.inputs}
    weights = {
        None if each.example_weights is None else inputs.get(each.example_weights) for each in model.losses
    }
    if not weights or None in weights or model.tensor_terms:
        return False
    return all(stream.is_zero(name) for name in weights if name is not None)


def doubt(scores: Scores, stream: Stream, split: str, step: int | None = None) -> Diagnostic | None:
    """Return a warning if a score has no value, about the data if they are the cause, or about the score."""
    found = (scores.without_value(each) for each in (LOSS, *scores.metrics))
    why = next((each for each in found if each is not None), None)
    if why is None:
        return None
    said = errors.without_value(why=why, split=split, step=step)
    return stream.not_finite(said.message, warns=True) or said


def _batches(engine: Engine, stop: Callable[[], bool]) -> Iterator[tuple[int, Parts, dict[str, list[Any]]]]:
    """Yield the number of examples, the parts of the loss and the metric states of each batch.

    If the ops of a batch do not use all cores, several batches are evaluated at a time. They read from one
    stream in an order that is not fixed, so a deterministic run evaluates one at a time.
    """
    plan = engine.compiled.plan
    several = 1 if plan.spec.train.deterministic else batches_at_once(plan)
    waiting: deque[Future[Any]] = deque()
    more, wanted = True, 1  # the first of a run is traced, so the first is alone
    try:
        while more or waiting:
            if stop():
                raise Stopped
            while more and len(waiting) < wanted:
                waiting.append(in_background(engine.evaluate_batch))
            try:
                yield waiting.popleft().result()
            except tf.errors.OutOfRangeError:
                more = False
            wanted = several
    finally:
        wait(waiting)


def _result(engine: Engine, metric: MetricTensors, states: list[Any]) -> Any:
    feed = {
        tensor: state.astype(tensor.dtype.as_numpy_dtype)
        for tensor, state in zip(metric.states, states, strict=True)
    }
    return engine.session.run(metric.result, feed)


# --- the evaluations of a run ---------------------------------------------------------------------------


@define
class Evaluations:
    """Evaluates the splits of a run, and records the scores in its history and its event files."""

    engine: Engine
    streams: Mapping[SplitName, Stream]
    history: History
    events: Events
    reporter: Reporter
    # The signals of the process. An evaluation ends early if one has been received.
    stop: StopSignals
    clock: Clock
    # Compares the evaluations of the watched split; None if the spec does not ask for the best.
    tracker: BestTracker | None = None
    # The latest scores of each split, and their step.
    scores: dict[SplitName, tuple[int, Scores]] = field(factory=dict)
    # The splits of which an evaluation had a score without a value, which is told once.
    doubted: set[SplitName] = field(factory=set)
    # The splits of which an evaluation had a value of the score that is compared, or of the loss.
    counted: set[SplitName] = field(factory=set)

    @property
    def watched(self) -> SplitName | None:
        """The split that is evaluated during training: `validation`, else `test`, else None."""
        return next((name for name in EVALUATED if name in self.streams), None)

    def watch(self, step: int) -> bool:
        """Evaluate the watched split after `step`; return whether it is the best evaluation so far."""
        if self.watched is None or self._has(self.watched, step) or self._noted(self.watched, step):
            return False
        scores = self.evaluate(self.watched, step)
        if scores is None or self.tracker is None:
            return False
        if self.compared in scores.empty:
            return self.tracker.compare(step, math.nan, {})
        return self.tracker.compare(step, scores.loss, scores.metrics)

    @property
    def compared(self) -> str:
        """The score that evaluations are compared by."""
        return LOSS if self.tracker is None else self.tracker.score

    def complete(self, step: int) -> None:
        """Evaluate every split that has not been evaluated after `step`."""
        for name in EVALUATED:
            if name in self.streams and not self._has(name, step):
                self.evaluate(name, step)

    def without_any(self, split: SplitName) -> str | None:
        """Return why no evaluation of a split had a value to compare; None if one had, or there was none."""
        best = self.tracker.best if self.tracker is not None and split == self.watched else None
        if best is not None or split in self.counted or split not in self.scores:
            return None
        return self.scores[split][1].without_value(self.compared)

    def _has(self, split: SplitName, step: int) -> bool:
        return split in self.scores and self.scores[split][0] == step

    def _noted(self, split: SplitName, step: int) -> bool:
        """Whether an earlier process has evaluated the split after `step`, with the same weights."""
        return any((each.split, each.step) == (split, step) for each in self.history.records)

    def evaluate(self, split: SplitName, step: int) -> Scores | None:
        """Evaluate a split with the present weights, those after `step`; None if a signal has come."""
        stream = self.streams[split]
        self.engine.publish()
        try:
            doing = f"evaluation on `{split}`"
            with (
                self.engine.activity.doing(doing, stream.split.source.span),
                located_examples(doing, self.engine, stream),
            ):
                scores = evaluate(self.engine, stream, stop=lambda: self.stop.received is not None)
        except Stopped:
            return None
        self.clock.evaluate += scores.seconds
        self.scores[split] = (step, scores)
        self._take_down(split, step, scores)
        if scores.without_value(self.compared) is None:
            self.counted.add(split)
        warning = doubt(scores, stream, split, step) if split not in self.doubted else None
        if warning is not None:
            self.doubted.add(split)
            self.reporter.warn(warning)
        return scores

    def _take_down(self, split: SplitName, step: int, scores: Scores) -> None:
        record = HistoryRecord(
            step=step,
            split=split,
            loss=scores.loss,
            data_loss=scores.data_loss,
            metrics=scores.metrics,
            examples_per_second=scores.examples / scores.seconds,
        )
        if not self._noted(split, step):  # otherwise a finished run is being run again
            self.history.append(record)
            self.events.write(record)
        self.reporter.evaluated(record, scores.examples)
