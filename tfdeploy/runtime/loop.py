"""The training loop: steps, what is logged, evaluations and checkpoints in between."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define, field

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from tfdeploy.runtime.evaluation import Scores, Stopped, evaluate
from tfdeploy.runtime.faults import located
from tfdeploy.runtime.history import History, Line, SplitName
from tfdeploy.runtime.periods import Period, Unobtrusive
from tfdeploy.runtime.result import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.graph.sources import Stream
    from tfdeploy.runtime.checkpoints import Checkpoints
    from tfdeploy.runtime.engine import Engine, StepReport
    from tfdeploy.runtime.events import Events
    from tfdeploy.runtime.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals


@define
class Trainer:
    """Everything that a run needs to make steps.

    `streams` are the splits that there are; `step` and `examples` count from the start of the run.
    `after_first` is called when this process has made its first step.
    """

    engine: Engine
    streams: Mapping[SplitName, Stream]
    checkpoints: Checkpoints
    history: History
    events: Events
    reporter: Reporter
    stop: StopSignals
    clock: Clock
    after_first: Callable[[], None]
    step: int = 0
    examples: int = 0
    last_line: Line | None = None
    scores: dict[SplitName, tuple[int, Scores]] = field(factory=dict)

    @property
    def batch(self) -> int:
        """Examples that a step takes."""
        return self.engine.compiled.plan.global_batch

    def train(self, last: int) -> None:
        """Make steps up to number `last`, or until a signal comes; then write a checkpoint."""
        spec = self.engine.compiled.plan.spec.train
        evaluating = Period.of(spec.evaluate_every)
        saving = Period.of(spec.checkpoint_every) if spec.checkpoint_every is not None else Unobtrusive()
        split = self.watched
        window = _Window()
        while self.step < last and self.stop.received is None:
            logged = (self.step + 1) % spec.log_every == 0 or self.step + 1 == last
            self._one_step(logged=logged, window=window)
            if split is not None and evaluating.due(self.step) and self.step < last:
                self.evaluate(split)
                evaluating.done()
            if saving.due(self.step) and self.step < last:
                spent = self.save()
                saving.done()
                if isinstance(saving, Unobtrusive):
                    saving.took(spent)
        self.save()

    @property
    def watched(self) -> SplitName | None:
        """The split that is evaluated during training: validation, or test where there is no other."""
        names: tuple[SplitName, ...] = ("validation", "test")
        return next((name for name in names if name in self.streams), None)

    # --- steps --------------------------------------------------------------------------------------------

    def _one_step(self, *, logged: bool, window: _Window) -> None:
        first = self.clock.first_step is None
        begun = time.perf_counter()
        report = None
        with located(f"step {self.step + 1}", self.engine.compiled, self.streams["train"]):
            if first or logged:
                report = self.engine.logged_step(traced=first)
                loss = report.loss
            else:
                loss = self.engine.step()
        spent = time.perf_counter() - begun
        if not math.isfinite(loss):
            span = self.engine.compiled.plan.spec.model.span_of("loss")
            raise RunError(errors.loss_not_finite(self.step + 1, loss, self.checkpoints.last_step, span))
        self.step += 1
        self.examples += self.batch
        if first:
            self.clock.first_step = spent
            self.after_first()
        else:
            self.clock.train += spent
            self.clock.examples += self.batch
            window.add(self.batch, spent)
        self.reporter.stepped(self.step)
        if logged and report is not None:
            self._log(report, window.speed())

    def _log(self, report: StepReport, speed: float | None) -> None:
        line = Line(
            step=self.step,
            split="train",
            loss=report.loss,
            data_loss=report.data_loss,
            metrics=report.metrics,
            examples_per_second=speed,
            learning_rate=report.learning_rate,
        )
        self.last_line = line
        self.history.append(line)
        self.events.line(line, report.summary)
        self.reporter.logged(line)

    # --- evaluations --------------------------------------------------------------------------------------

    def evaluate(self, split: SplitName) -> None:
        """Evaluate a split after the present step; a signal that comes meanwhile ends it without a result."""
        stream = self.streams[split]
        batch = self.engine.compiled.plan.towers[0].batch
        try:
            with located(f"evaluation on `{split}`", self.engine.compiled, stream):
                scores = evaluate(self.engine, stream, batch, stop=lambda: self.stop.received is not None)
        except Stopped:
            return
        self.clock.evaluate += scores.seconds
        self.scores[split] = (self.step, scores)
        line = Line(
            step=self.step,
            split=split,
            loss=scores.loss,
            data_loss=scores.data_loss,
            metrics=scores.metrics,
            examples_per_second=scores.examples / scores.seconds,
        )
        self.history.append(line)
        self.events.line(line)
        self.reporter.evaluated(line, scores.examples)

    def evaluate_all(self) -> None:
        """Evaluate every split that has not been after the present step."""
        names: tuple[SplitName, ...] = ("validation", "test")
        for name in names:
            if name in self.streams and self.scores.get(name, (None,))[0] != self.step:
                self.evaluate(name)

    # --- checkpoints --------------------------------------------------------------------------------------

    def save(self) -> float:
        """Write a checkpoint of the present step; return the seconds it took."""
        self.history.sync()
        with located("writing a checkpoint", self.engine.compiled):
            spent = self.checkpoints.save(self.step, self.examples)
        self.events.flush()
        self.clock.checkpoint += spent
        return spent


@define
class _Window:
    """Examples and seconds of the steps since the last that was logged."""

    examples: int = 0
    seconds: float = 0.0

    def add(self, examples: int, seconds: float) -> None:
        self.examples += examples
        self.seconds += seconds

    def speed(self) -> float | None:
        """Return the examples per second, and begin anew; None where there were no steps."""
        found = self.examples / self.seconds if self.seconds > 0 else None
        self.examples, self.seconds = 0, 0.0
        return found
