"""The activity of a run, and a watchdog that reports if the activity makes no progress.

The main thread may be inside TensorFlow for as long as a step takes, and a step may wait for ever: for a
source of data that blocks, or for a server that is stopped. So the watchdog's thread also ends such a run
if a signal comes.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from contextlib import AbstractContextManager, contextmanager, nullcontext
from signal import Signals
from typing import TYPE_CHECKING, Any

from attrs import define, field

from dsl.errors import running as errors
from tfdeploy.runtime.show.reporting import duration
from tfdeploy.runtime.stop import GivenUp, alongside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span
    from tfdeploy.data.sources.base import Source
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals

    Cause = Callable[[], Iterable[tuple[str, Span | None]]]


LEAST = 10.0  # seconds without progress before the first report
AT_FIRST = 30.0  # the same for an activity that this process does for the first time
USUALLY = 5  # an activity may last this many times as long as the longest of its kind, without the first
GROWTH = 2  # a report is repeated when the wait is this many times as long
TO_END = 3.0  # seconds in which a run may end by itself after a signal
LOOK_EVERY = 0.25
OTHERS = "others"
"""The name of the cause for which other tasks are asked what they are doing, which takes a while."""


@define
class Times:
    """The seconds that activities of one kind have taken."""

    # Those of the first one, which has more to do than the others; None if there was none.
    first: float | None = None
    longest: float | None = None  # the most of the others; None if there were none

    def add(self, seconds: float) -> None:
        """Note another activity."""
        if self.first is None:
            self.first = seconds
        else:
            self.longest = max(seconds, self.longest or 0.0)

    @property
    def patience(self) -> float:
        """The seconds after which another activity takes too long."""
        if self.longest is not None:
            return max(LEAST, USUALLY * self.longest)
        return max(AT_FIRST, 2 * (self.first or 0.0))


@define
class Activity:
    """What a run is doing, and since when."""

    what: str = "the run"  # what the run does, in words that fit into a sentence, such as `step 7`
    span: Span | None = None
    last_step: int | None = None  # the step of the newest checkpoint; None if there is none yet
    # The global step to which this process has come; None if it has not begun to make steps.
    step: int | None = None
    # The updates of this worker, if workers update independently of each other; else None.
    updates: int | None = None
    examples: int = 0
    # The signals of the run, of which nobody may wait for the end any more; None if there are none.
    stop: StopSignals | None = field(default=None, repr=False)
    # Functions by name, each of which yields likely reasons for a wait: a sentence and the part of the spec
    # that it is about.
    causes: dict[str, Cause] = field(factory=dict)
    waiting: bool = False  # whether what it does is to wait for others
    _kind: str = ""
    _since: float = field(factory=time.monotonic)
    _used: float = field(factory=time.process_time)  # seconds of processor time at `_since`
    _times: dict[str, Times] = field(factory=dict)

    @contextmanager
    def doing(
        self, what: str, span: Span | None = None, kind: str | None = None, *, waiting: bool = False
    ) -> Iterator[None]:
        """Set what the run does during the block.

        Args:
            what: The activity, in words that fit into a sentence.
            kind: Activities of one kind take about equally long; by default `what` itself.
            waiting: Whether this is a wait for others, in which nothing is computed.
        """
        before = self.what, self.span, self._kind, self.waiting
        self.what, self.span, self._kind, self.waiting = what, span, what if kind is None else kind, waiting
        self._begin()
        try:
            yield
        finally:
            self.note_progress()
            self.what, self.span, self._kind, self.waiting = before

    def note_progress(self) -> None:
        """Note that the run has made progress; raises GivenUp if nobody waits for it any more."""
        if self.stop is not None and self.stop.given_up:
            raise GivenUp
        self._times.setdefault(self._kind, Times()).add(self.idle)
        self._begin()

    def _begin(self) -> None:
        self._since, self._used = time.monotonic(), time.process_time()

    @property
    def began(self) -> float:
        """When the run last made progress (`time.monotonic()`)."""
        return self._since

    @property
    def idle(self) -> float:
        """The seconds since the run last made progress."""
        return time.monotonic() - self._since

    @property
    def patience(self) -> float:
        """The seconds without progress before a report; infinite if no activity has been set."""
        return self._times.get(self._kind, Times()).patience if self._kind else math.inf

    @property
    def patience_to_end(self) -> float:
        """The seconds without progress after which a signal ends the run, if it does not end by itself."""
        return self.patience if self._kind and self._kind in self._times else LEAST

    def waits_for(self) -> list[str]:
        """Return what the run is known to wait for, in words, without asking anybody."""
        known = [cause for name, cause in tuple(self.causes.items()) if name != OTHERS]
        return [words for cause in known for words, _ in cause()]

    def reasons(self) -> tuple[Span | None, tuple[str, ...]]:
        """Return the part of the spec that the run waits for, and sentences with the likely reasons."""
        found = [each for cause in tuple(self.causes.values()) for each in cause()]
        span = next((span for _, span in found if span is not None), self.span)
        used = max(0.0, time.process_time() - self._used)
        work = f"this process has used {duration(used)} of processor time meanwhile"
        return span, (*(words for words, _ in found), work)


class Watchdog:
    """Reports a lack of progress from a thread, and ends the run if a signal comes meanwhile.

    With it ends the process, if that exists for this run alone; see `StopSignals`.
    """

    def __init__(self, activity: Activity, stop: StopSignals, reporter: Reporter) -> None:
        self._activity, self._stop, self._reporter = activity, stop, reporter
        self._reported_idle = 0.0  # seconds without progress when that was last reported

    def watching(self) -> AbstractContextManager[None]:
        """Watch the run from a thread during the block."""
        return alongside(self._watch, "watchdog")

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(LOOK_EVERY):
            idle, arrived = self._activity.idle, self._stop.arrived
            if idle < self._activity.patience:
                self._reported_idle = 0.0
            elif idle >= GROWTH * self._reported_idle:
                self._reported_idle = idle
                span, reasons = self._activity.reasons()
                self._say(
                    errors.no_progress(span, what=self._activity.what, idle=duration(idle), reasons=reasons)
                )
            if arrived is None or idle < self._activity.patience_to_end:
                continue
            if time.monotonic() - max(arrived[1], self._activity.began) > TO_END:
                self._end(arrived[0], idle)
                return

    def _say(self, warning: Diagnostic) -> None:
        try:
            self._reporter.warn(warning)
        except Exception:  # noqa: BLE001  # of a reporter or a filter of warnings; a signal still ends the run
            traceback.print_exc()

    def _end(self, number: Signals, idle: float) -> None:
        """End the run, because its activity cannot be ended in another way."""
        activity, (span, reasons) = self._activity, self._activity.reasons()
        told = errors.ended_without_progress(
            span,
            signal=number.name,
            doing=activity.what,
            idle=duration(idle),
            last_step=activity.last_step,
            reasons=reasons,
        )
        self._say(told)
        self._stop.end_run(number)


def waiting_for(source: Source) -> Cause:
    """Return a cause for `Activity.causes`: the run waits for examples of `source`."""

    def cause() -> Iterator[tuple[str, Span | None]]:
        for each in tuple(source.asked):
            ago = duration(time.monotonic() - each.since)
            by = f" by {each.reader}" if each.reader else ""
            yield f"{each.what} was asked for{by} {ago} ago and has not come", source.span

    return cause


class HealthMonitor:
    """Monitors the other workers and servers of a run during training. This one has none."""

    absent: Sequence[Any] = ()
    """The tasks that did not answer when they were last asked; `words` of each says what is missing."""

    @property
    def timed_out(self) -> BaseException | None:
        """The error that ends all waiting for the others; None if there is none."""
        return None

    def progress(self) -> None:
        """Note that training makes progress, so that no task has to be asked."""

    def during(self, doing: str) -> AbstractContextManager[None]:
        """Monitor the others from a thread during the block; `doing` is what this process waits for."""
        del doing
        return nullcontext()
