"""The evaluations of a run: which splits, after which steps, and which of them is the best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define, field

from tfdeploy.runtime.records.history import History, HistoryRecord, SplitName
from tfdeploy.runtime.session.faults import located
from tfdeploy.runtime.train.evaluation import Stopped, evaluate

if TYPE_CHECKING:
    from tfdeploy.data import Stream
    from tfdeploy.runtime.records.result import Clock, Scores
    from tfdeploy.runtime.session.engine import Engine
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals
    from tfdeploy.runtime.train.best import BestTracker
    from tfdeploy.runtime.train.events import Events

SPLITS: tuple[SplitName, ...] = ("validation", "test")


@define
class Evaluations:
    """Evaluates splits and takes down what comes out; `scores` are the latest of each, with their step."""

    engine: Engine
    streams: Mapping[SplitName, Stream]
    history: History
    events: Events
    reporter: Reporter
    stop: StopSignals
    clock: Clock
    tracker: BestTracker | None = None
    scores: dict[SplitName, tuple[int, Scores]] = field(factory=dict)

    @property
    def watched(self) -> SplitName | None:
        """The split that is evaluated during training: validation, or test if there is no other."""
        return next((name for name in SPLITS if name in self.streams), None)

    def watch(self, step: int) -> bool:
        """Evaluate the watched split after `step`; return whether it is the best evaluation so far."""
        if self.watched is None or self._has(self.watched, step) or self._noted(self.watched, step):
            return False
        scores = self.evaluate(self.watched, step)
        if scores is None or self.tracker is None:
            return False
        return self.tracker.enter(step, scores.loss, scores.metrics)

    def complete(self, step: int) -> None:
        """Evaluate every split that has not been after `step`."""
        for name in SPLITS:
            if name in self.streams and not self._has(name, step):
                self.evaluate(name, step)

    def _has(self, split: SplitName, step: int) -> bool:
        return split in self.scores and self.scores[split][0] == step

    def _noted(self, split: SplitName, step: int) -> bool:
        """Whether an earlier process has evaluated after `step`, with these very weights."""
        return any((each.split, each.step) == (split, step) for each in self.history.lines)

    def evaluate(self, split: SplitName, step: int) -> Scores | None:
        """Evaluate a split with the present weights, those after `step`; None if a signal ended it."""
        stream = self.streams[split]
        self.engine.publish()
        try:
            doing = f"evaluation on `{split}`"
            with (
                self.engine.pulse.doing(doing, stream.split.source.span),
                located(doing, self.engine.compiled, stream, self.engine.lost),
            ):
                scores = evaluate(self.engine, stream, stop=lambda: self.stop.received is not None)
        except Stopped:
            return None
        self.clock.evaluate += scores.seconds
        self.scores[split] = (step, scores)
        self._take_down(split, step, scores)
        return scores

    def _take_down(self, split: SplitName, step: int, scores: Scores) -> None:
        line = HistoryRecord(
            step=step,
            split=split,
            loss=scores.loss,
            data_loss=scores.data_loss,
            metrics=scores.metrics,
            examples_per_second=scores.examples / scores.seconds,
        )
        if not self._noted(split, step):  # else a finished run is being run again
            self.history.append(line)
            self.events.line(line)
        self.reporter.evaluated(line, scores.examples)
