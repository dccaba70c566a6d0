"""The training loop: steps, log lines, evaluations and checkpoints, and when these are due."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing

from attrs import define, evolve, field

from compiler.plan import Plan
from dsl import ir
from dsl.diagnostics import RunError, SpecError
from dsl.errors import plan as plan_errors
from dsl.errors import running as errors
from tfdeploy.data import Stream
from tfdeploy.runtime.cluster.worker_group import UpdateReports, WorkerGroup
from tfdeploy.runtime.cluster.worker_steps import chief_steps
from tfdeploy.runtime.records.history import History, HistoryRecord
from tfdeploy.runtime.records.result import Clock
from tfdeploy.runtime.session.checkpoints import Checkpoints
from tfdeploy.runtime.session.data import BEGINNING, feed_training
from tfdeploy.runtime.session.engine import Engine, Refused, StepReport
from tfdeploy.runtime.session.faults import located, located_examples
from tfdeploy.runtime.session.steps import StepResult, Steps, make_steps
from tfdeploy.runtime.show.reporting import Reporter
from tfdeploy.runtime.stop import StopSignals
from tfdeploy.runtime.train.evaluation import BestTracker, Evaluations
from tfdeploy.runtime.train.events import Events, Profile

SHORTEST_PAUSE = 5.0
SHARE = 0.02


@define
class Period:
    """Says when something is due that is done every so many steps, or every so many seconds."""

    steps: int | None = None  # the number of steps; None if seconds count
    # The number of seconds; None if steps count. If both are None, it is never due.
    seconds: float | None = None
    adapts: bool = False  # whether it is due less often if what is done takes more than 2 % of the time
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _last: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._last = self.clock()

    @classmethod
    def of(cls, every: ir.Every | None) -> Period:
        """Return the period that a spec asks for; never, if it asks for none."""
        return cls() if every is None else cls(every.steps, every.seconds)

    def due(self, step: int) -> bool:
        """Whether it is due after `step`."""
        if self.steps is not None:
            return step % self.steps == 0
        return self.seconds is not None and self.clock() - self._last >= self.seconds

    def next_after(self, step: int) -> int | None:
        """Return the first step after `step` at which this is due; None if seconds count."""
        return None if self.steps is None else (step // self.steps + 1) * self.steps

    def done(self, spent: float = 0.0) -> None:
        """Count the seconds from now; `spent` is how long what was due has taken."""
        self._last = self.clock()
        if self.adapts:
            self.seconds = max(SHORTEST_PAUSE, spent / SHARE)


def total_steps(plan: Plan, size: int | None, step: int = 0, examples: int = 0) -> int:
    """Return the global step at which training ends.

    Epochs are counted by the examples that were consumed, because an earlier part of the run may have had
    another number of clones. A last batch that the epochs do not fill is left out.

    Raises:
        SpecError: If the spec gives neither steps nor epochs.
        RunError: If the epochs have no known size, or too few examples for a step.
    """
    spec, train = plan.spec, plan.spec.train
    if train.steps is not None:
        return train.steps
    if train.epochs is None:
        missing = "`steps` or `epochs` in `train`"
        raise SpecError([plan_errors.nothing_to_train_on(train.span, missing=missing)])
    span = train.span_of("epochs")
    if size is None:
        raise RunError(errors.size_unknown(span))
    concurrent = plan.concurrent_steps
    steps = step + max(0, train.epochs * size - examples) * concurrent // plan.global_batch
    if steps == 0:
        data = spec.data.train if spec.data is not None else None
        source = data.source.span if data is not None else None
        there, batch = train.epochs * size, plan.global_batch // concurrent
        raise RunError(errors.too_few_examples(source, size=there, batch=batch, batch_span=spec.clones.span))
    return steps


def left_out(plan: Plan, size: int | None, examples: int = 0) -> int:
    """Return the number of examples of the last epoch that do not fill a step."""
    train, concurrent = plan.spec.train, plan.concurrent_steps
    if train.steps is not None or train.epochs is None or size is None:
        return 0
    return max(0, train.epochs * size - examples) * concurrent % plan.global_batch // concurrent


NOT_FINITE = "TFD730"
MUCH = 0.25  # of the training time
TELLING = 5.0  # seconds of training, before which the share means little


@define
class Trainer:
    """Makes the steps of a run."""

    engine: Engine
    stream: Stream
    evaluations: Evaluations
    checkpoints: Checkpoints
    history: History
    events: Events
    reporter: Reporter
    stop: StopSignals  # the signals of the process, which end the loop after a step
    clock: Clock
    after_first: Callable[[], None]  # is called when this process has made its first step
    step: int = 0
    examples: int = 0  # the number of examples consumed since the start of the run
    last_record: HistoryRecord | None = None
    group: WorkerGroup | None = None  # the chief's view of all workers; None if one graph has all clones
    profile: Profile | None = None
    _window: Clock = field(factory=Clock)  # of the steps since the last that was logged
    _said_waiting: bool = False
    _logged: int = field(init=False)  # the last step that was
    _told: UpdateReports | None = field(init=False)
    _report: StepReport | None = field(default=None, init=False)  # the newest that was not logged yet

    def __attrs_post_init__(self) -> None:
        self._logged = self.step
        self._told = UpdateReports(self.group) if self.group is not None else None

    @property
    def tracker(self) -> BestTracker | None:
        """Compares evaluations; None if the spec does not ask for the best."""
        return self.evaluations.tracker

    def train(self, last: int) -> None:
        """Make steps up to number `last`, unless the patience or a signal ends training before."""
        try:
            steps = chief_steps(self.group) if self.group is not None else make_steps(self.engine)
            with closing(steps):
                self._all_steps(steps, last)
            if self.tracker is not None and self.stop.received is None:
                self._watch()
            self.save()
        except RunError as error:
            if error.diagnostic.code != NOT_FINITE:
                raise
            raise self._cause(error) from error

    def _cause(self, error: RunError) -> RunError:
        """Return the error about the data if they are why a loss or weights are not finite, else that one."""
        told = error.diagnostic
        found = self.stream.not_finite(told.message, self._read)
        return error if found is None else RunError(evolve(found, notes=(*found.notes, *told.notes)))

    def _all_steps(self, steps: Steps, last: int) -> None:
        """Make steps, with evaluations and checkpoints when they are due."""
        spec = self.engine.compiled.plan.spec.train
        evaluating = Period.of(spec.evaluate_every if self.evaluations.watched is not None else None)
        saving = Period.of(spec.checkpoint_every)
        if spec.checkpoint_every is None:
            saving = Period(seconds=SHORTEST_PAUSE, adapts=True)
        start = self.step
        if evaluating.steps is not None and start and evaluating.due(start):
            self._watch()  # the process may have ended at this step before it has evaluated
        while self.step < last and not self._is_over():
            pauses = [each.next_after(self.step) for each in (evaluating, saving)]
            until = min(last, *(last if each is None else each for each in pauses))
            self._next(steps, until - start, last)
            if self.step < last and (evaluating.due(self.step) or saving.due(self.step)):
                self._settle(steps, last)
                self._pause(evaluating, saving)
        self._settle(steps, last)

    def _is_over(self) -> bool:
        return self.stop.received is not None or (self.tracker is not None and self.tracker.is_over)

    def _pause(self, evaluating: Period, saving: Period) -> None:
        """Evaluate and write a checkpoint, as far as they are due."""
        if evaluating.due(self.step):
            self._watch()
            evaluating.done()
        if saving.due(self.step):
            saving.done(self.save())

    def _watch(self) -> None:
        """Evaluate, and keep the checkpoint if the evaluation is the best so far."""
        if self.evaluations.watch(self.step) and self.tracker is not None:
            self.checkpoints.best_step = self.step
            self.save()
            self.tracker.save()

    # --- steps --------------------------------------------------------------------------------------------

    def _next(self, steps: Steps, until: int, last: int) -> None:
        """Make a step, or wait for one, and record it."""
        first = self.clock.first_step is None
        if self.profile is not None and not first:
            self.profile.before()
        begun = time.perf_counter()
        try:
            with self.engine.activity.doing(f"step {self.step + 1}", kind="step"), self._located():
                done = steps.next(logged=self._is_due(self.step + steps.stride, last), until=until)
        except Refused as fault:
            if not (steps.can_repeat and self.engine.has_only_read(fault)):
                raise
            with self.engine.activity.doing(BEGINNING):
                feed_training(self.engine, self.stream, self.examples)  # so that the step reads the same
            return
        spent = time.perf_counter() - begun
        self.engine.progress()
        if first:
            self.clock.first_step = spent
        else:
            self._took(done, spent)
        self._count(done, last)
        if first:
            self.after_first()
        elif self.profile is not None and self.profile.after():
            self.profile = None

    def _settle(self, steps: Steps, last: int) -> None:
        """Wait for the steps that have begun, and record them."""
        begun = time.perf_counter()
        with self.engine.activity.doing("the steps that have begun", kind="step"), self._located():
            finished = steps.settle()
        spent = time.perf_counter() - begun
        for done in finished:
            self._took(done, spent / len(finished))
            self._count(done, last)

    def _took(self, done: StepResult, spent: float) -> None:
        """Add the time of a step, and report it once if much of the time is spent waiting for data."""
        for clock in (self.clock, self._window):
            clock.took(done.examples, spent, done.waited)
        share = self.clock.waiting or 0.0
        if not self._said_waiting and self.clock.train >= TELLING and share >= MUCH:
            self._said_waiting = True
            self.reporter.waiting(share, remedy(self.stream.split))

    def _is_due(self, step: int, last: int) -> bool:
        """Whether `step` is to be logged, or a step that was skipped over was to be."""
        every = self.engine.compiled.plan.spec.train.log_every
        return step // every > self._logged // every or step >= last

    def _located(self) -> AbstractContextManager[None]:
        return located_examples(f"step {self.step + 1}", self.engine, self.stream, self._read)

    @property
    def _read(self) -> int:
        """How many examples may have been read by now, over all passes."""
        compiled = self.engine.compiled
        return self.examples + 2 * compiled.plan.global_batch * max(len(compiled.train_loops), 1)

    def _count(self, done: StepResult, last: int) -> None:
        """Count a step, and log it if that is due; raise RunError if its loss is not finite."""
        if not math.isfinite(done.loss):
            span = self.engine.compiled.plan.spec.model.span_of("loss")
            good, loss = self.checkpoints.last_step, str(done.loss)
            raise RunError(errors.loss_not_finite(span, step=self.step + 1, last_good=good, loss=loss))
        self.step += done.steps
        self.examples += done.examples
        self.engine.activity.step = self.step
        if self.group is None:  # otherwise the steps of the group count the chief's own
            self.engine.activity.examples += done.examples
        self.reporter.stepped(self.step)
        self._report = done.report or self._report
        if self._report is not None and done.steps and self._is_due(self.step, last):
            self._log(self._report)

    def _log(self, report: StepReport) -> None:
        alone, window = bool(self.engine.compiled.train_loops), self._window
        rates = self.engine.learning_rates() if alone else report.learning_rates
        self._window, self._report, self._logged = Clock(), None, self.step
        record = HistoryRecord(
            step=self.step,
            split="train",
            loss=report.loss,
            data_loss=report.data_loss,
            metrics=report.metrics,
            examples_per_second=window.examples_per_second,
            learning_rate=next(iter(rates.values()), None),
            learning_rates=rates if len(rates) > 1 else None,
            data_waiting=window.waiting,
            worker=self.group.name if self.group is not None else None,
        )
        self.last_record = record
        self.history.append(record)
        self.events.write(record, report.summary)
        self.reporter.logged(record)
        self._log_others()

    def _log_others(self) -> None:
        """Add the reports of other workers about their own updates to the history."""
        if self._told is None:
            return
        with self.engine.activity.doing("reading what the workers report"):
            told = list(self._told.new_reports())
        for worker, loss, data_loss, speed, metrics in told:
            record = HistoryRecord(self.step, "train", loss, data_loss, metrics, speed, worker=worker)
            self.history.append(record)

    # --- checkpoints --------------------------------------------------------------------------------------

    def save(self) -> float:
        """Write a checkpoint of the present step; return the seconds it took."""
        self.history.sync()
        with self.engine.activity.doing("writing a checkpoint"):
            self.engine.publish()
            with located("writing a checkpoint", self.engine.compiled, lost=self.engine.lost):
                spent = self.checkpoints.save(self.step, self.examples)
        self.engine.activity.last_step = self.step
        self.clock.checkpoint += spent
        return spent


def remedy(train: ir.Split) -> str:
    """Return an advice for training data that is read more slowly than steps are made."""
    names = [call.name for call in train.transforms]
    if train.source.name == "python":
        slow = f"the source `{train.source.name}` yields examples one by one"
        return f"{slow}; make it quicker, or write its examples to TFRecord files once"
    if "cache" not in names:
        return (
            "if the examples fit into memory, `-> cache()` before `shuffle` reads and decodes them only once"
        )
    return "steps with more work in them, fewer transforms or a quicker disk help; more clones do not"
