"""Making steps: one after the other, or, where clones update each by itself, in a thread for each clone.

The caller takes finished steps one by one. Before it looks at the variables it lets the steps in hand end.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from compiler.graph.compiled import TrainLoop
    from tfdeploy.runtime.engine import Engine, StepReport


@frozen
class Done:
    """A step that is done: its examples, its loss, and what it tells where that was asked for."""

    examples: int
    loss: float
    report: StepReport | None = None


class Steps(Protocol):
    """Makes steps."""

    def next(self, *, logged: bool, until: int) -> Done:
        """Return the next step that is done; `logged` asks for its report.

        No step is begun beyond number `until`, counted from where these steps started.
        """

    def settle(self) -> list[Done]:
        """Let the steps in hand end, and return them; no further one is begun before `next`."""

    def close(self) -> None:
        """Make no more steps."""


def make_steps(engine: Engine) -> Steps:
    """Return what makes the steps of a compiled graph."""
    if engine.compiled.train_loops:
        return AsyncSteps(engine)
    return SyncSteps(engine)


class SyncSteps:
    """A step is made when it is asked for; all clones take part in each."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._examples = engine.compiled.plan.global_batch
        self._first = True

    def next(self, *, logged: bool, until: int) -> Done:
        """Make a step. The first is traced and tells about itself in any case."""
        del until
        if not (logged or self._first):
            return Done(self._examples, self._engine.step())
        report = self._engine.logged_step(traced=self._first)
        self._first = False
        return Done(self._examples, report.loss, report)

    def settle(self) -> list[Done]:
        """Return nothing: no step is ever in hand."""
        return []

    def close(self) -> None:
        """Do nothing: there are no threads."""


class AsyncSteps:
    """Every clone makes updates in a thread of its own, whatever the others do."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Condition()
        self._done: queue.Queue[Done | BaseException] = queue.Queue()
        self._begun = self._until = self._in_hand = 0
        self._closed = False
        for loop in engine.compiled.train_loops:
            threading.Thread(target=self._work, args=(loop,), name=f"clone_{loop.clone}", daemon=True).start()

    def next(self, *, logged: bool, until: int) -> Done:
        """Wait for an update of any clone; each tells about itself."""
        del logged
        with self._lock:
            self._until = until
            self._lock.notify_all()
        return self._take()

    def settle(self) -> list[Done]:
        """Wait until no clone is at work; their threads wait too."""
        with self._lock:
            self._until = 0
        found = []
        while self._coming():
            found.append(self._take())
        return found

    def close(self) -> None:
        """Let the threads end."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def _coming(self) -> bool:
        with self._lock:
            return self._in_hand > 0 or not self._done.empty()

    def _take(self) -> Done:
        done = self._done.get()
        if isinstance(done, BaseException):
            self.close()
            raise done
        return done

    def _begin(self) -> bool:
        """Wait until an update may be begun, and count it; False where the thread is to end."""
        with self._lock:
            self._lock.wait_for(lambda: self._closed or self._begun < self._until)
            if self._closed:
                return False
            self._begun += 1
            self._in_hand += 1
            return True

    def _work(self, loop: TrainLoop) -> None:
        traced = True
        while self._begin():
            try:
                report = self._engine.loop_step(loop, traced=traced)
            except BaseException as fault:  # noqa: BLE001  handed to the thread that waits
                self._finish(fault)
                return
            traced = False
            self._finish(Done(loop.batch, report.loss, report))

    def _finish(self, done: Done | BaseException) -> None:
        with self._lock:  # who sees a step in hand may rely on its coming
            self._done.put(done)
            self._in_hand -= 1
