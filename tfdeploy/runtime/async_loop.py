"""Asynchronous training in one process: a thread for every clone, each repeating its own update."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from tfdeploy.runtime.tickets import Tickets

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.graph.compiled import CompiledGraph, TrainLoop

JOIN_SECONDS = 0.5  # how often the main thread looks up, so that Python can handle signals


@frozen
class Update:
    """One update that has been made. `number` counts them in the order in which they ended.

    `loss` (with the regularisation term), `data_loss` and `states` of metrics are those of the `examples` of
    the clone's batch.
    """

    number: int
    clone: int
    examples: int
    loss: float
    data_loss: float
    states: Mapping[str, Sequence[Any]] = field(repr=False)


@define
class AsyncLoops:
    """The loops of all clones on one session.

    `on_update` is told of every update, one at a time; what it raises ends the loops and is raised by `run`.
    `first_run` runs the fetches of a clone's first update, where more is wanted of it than their values.
    `before` is called in the clone's thread before each of its updates.
    """

    compiled: CompiledGraph = field(repr=False)
    session: Any = field(repr=False)
    on_update: Callable[[Update], None] = field(default=lambda _: None, repr=False)
    first_run: Callable[[Any], Any] | None = field(default=None, repr=False)
    before: Callable[[int], None] = field(default=lambda _: None, repr=False)
    tickets: Tickets = field(init=False)
    updates: int = field(default=0, init=False)
    _runners: dict[int, Callable[[], Any]] = field(factory=dict, init=False, repr=False)
    _fault: BaseException | None = field(default=None, init=False, repr=False)
    _one_at_a_time: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        loops = self.compiled.train_loops
        self.tickets = Tickets(len(loops), self.compiled.plan.update.staleness)

    def run(self, count: int, stop: Callable[[], bool] = lambda: False) -> int:
        """Make `count` updates, or as many as there were when `stop` said so; return how many.

        No update is under way when this returns or raises.
        """
        before = self.updates
        self.tickets.stop = stop
        self.tickets.open(count)
        threads = [
            threading.Thread(target=self._repeat, args=(loop,), name=f"clone {loop.clone}")
            for loop in self.compiled.train_loops
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(JOIN_SECONDS)
        finally:
            self.tickets.close()
            for thread in threads:
                thread.join()
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        return self.updates - before

    def _repeat(self, loop: TrainLoop) -> None:
        try:
            while self.tickets.take(loop.clone):
                self.before(loop.clone)
                values = self._runner(loop)()
                self.tickets.give_back(loop.clone)
                self._tell(loop, values)
        except BaseException as fault:  # noqa: BLE001  # raised again by `run`, in the thread that called it
            with self._one_at_a_time:
                self._fault = self._fault or fault
            self.tickets.close()

    def _runner(self, loop: TrainLoop) -> Callable[[], Any]:
        """Return what runs one update of a clone; the first one may be run by `first_run`."""
        states = {name: list(metric.states) for name, metric in loop.metrics.items()}
        fetches = [loop.train_op, loop.loss, loop.data_loss, states]
        known = self._runners.get(loop.clone)
        if known is not None:
            return known
        self._runners[loop.clone] = self.session.make_callable(fetches)
        first = self.first_run
        return self._runners[loop.clone] if first is None else lambda: first(fetches)

    def _tell(self, loop: TrainLoop, values: Sequence[Any]) -> None:
        _, loss, data_loss, states = values
        with self._one_at_a_time:
            self.updates += 1
            if self._fault is None:
                self.on_update(
                    Update(self.updates, loop.clone, loop.batch, float(loss), float(data_loss), states)
                )
