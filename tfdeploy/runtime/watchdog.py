"""The activity of a run, and a watchdog that reports if the activity makes no progress.

The main thread may be inside TensorFlow for as long as a step takes, and a step may wait for ever: for a
source of data that blocks, or for a server that is stopped. So the watchdog's thread also ends such a run if
a signal comes.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager
from signal import Signals
from typing import TYPE_CHECKING

from attrs import define, field

from dsl.errors.running import running as errors
from tfdeploy.runtime.show.words import duration
from tfdeploy.runtime.stop import BASE, end_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dsl.source import Span

    Cause = Callable[[], Iterable[tuple[str, Span | None]]]
    from tfdeploy.data.sources.base import Source
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals

LEAST = 10.0  # seconds without progress before the first report
AT_FIRST = 30.0  # the same for an activity that this process does for the first time
USUALLY = 5  # an activity may last this many times as long as the longest one of its kind so far
GROWTH = 2  # a report is repeated when the wait is this many times as long
TO_END = 3.0  # seconds in which a run may end by itself after a signal
LOOK_EVERY = 0.25


@define
class Activity:
    """What a run is doing, and since when.

    Attributes:
        what: What the run does, in words that fit into a sentence, such as `step 7`.
        span: The part of the spec that this is about.
        last_step: The step of the newest checkpoint; None if there is none yet.
        causes: Functions by name, each of which yields likely reasons for a wait: a sentence and the part of
            the spec that it is about.
    """

    what: str = "the run"
    span: Span | None = None
    last_step: int | None = None
    causes: dict[str, Cause] = field(factory=dict)
    _kind: str = ""
    _since: float = field(factory=time.monotonic)
    _used: float = field(factory=time.process_time)  # seconds of processor time at `_since`
    _longest: dict[str, float] = field(factory=dict)

    @contextmanager
    def doing(self, what: str, span: Span | None = None, kind: str | None = None) -> Iterator[None]:
        """Set what the run does during the block.

        Args:
            what: The activity, in words that fit into a sentence.
            span: The part of the spec that it is about.
            kind: Activities of one kind take about equally long; by default `what` itself.
        """
        before = self.what, self.span, self._kind
        self.what, self.span, self._kind = what, span, what if kind is None else kind
        self._begin()
        try:
            yield
        finally:
            self.note_progress()
            self.what, self.span, self._kind = before

    def note_progress(self) -> None:
        """Note that the run has made progress."""
        self._longest[self._kind] = max(self.idle, self._longest.get(self._kind, 0.0))
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
        longest = self._longest.get(self._kind) if self._kind else math.inf
        return AT_FIRST if longest is None else max(LEAST, USUALLY * longest)

    def reasons(self) -> tuple[Span | None, tuple[str, ...]]:
        """Return the part of the spec that the run waits for, and sentences with the likely reasons."""
        found = [each for cause in tuple(self.causes.values()) for each in cause()]
        span = next((span for _, span in found if span is not None), self.span)
        used = max(0.0, time.process_time() - self._used)
        work = f"this process has used {duration(used)} of processor time meanwhile"
        return span, (*(words for words, _ in found), work)


class Watchdog:
    """Reports a lack of progress from a thread, and ends the process if a signal comes meanwhile.

    The process is ended only if it exists for this run alone; see `StopSignals`.
    """

    def __init__(self, activity: Activity, stop: StopSignals, reporter: Reporter) -> None:
        self._activity, self._stop, self._reporter = activity, stop, reporter
        self._reported_idle = 0.0  # seconds without progress when that was last reported
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the run from a thread during the block."""
        thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            idle = self._activity.idle
            if idle < self._activity.patience:
                self._reported_idle = 0.0
                continue
            if idle >= GROWTH * self._reported_idle:
                self._reported_idle = idle
                span, reasons = self._activity.reasons()
                self._reporter.warn(errors.no_progress(self._activity.what, duration(idle), span, *reasons))
            arrived = self._stop.arrived
            if arrived is not None and time.monotonic() - max(arrived[1], self._activity.began) > TO_END:
                self._end(arrived[0], idle)

    def _end(self, number: Signals, idle: float) -> None:
        """End the process, because its activity cannot be ended in another way."""
        activity, (span, reasons) = self._activity, self._activity.reasons()
        what, words, last = activity.what, duration(idle), activity.last_step
        self._reporter.warn(errors.ended_without_progress(number.name, what, words, last, span, *reasons))
        end_process(BASE + number)


def waiting_for(source: Source) -> Cause:
    """Return a cause for `Activity.causes`: the run waits for an example of `source`."""

    def cause() -> Iterator[tuple[str, Span | None]]:
        asked = source.asked
        if asked is not None:
            words, since = asked
            yield (
                f"{words} was asked for {duration(time.monotonic() - since)} ago and has not come",
                source.span,
            )

    return cause
