"""The protocol by which an engine knows whether the processes that it depends on are running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


class AbsentTask(Protocol):
    """A task that did not answer."""

    @property
    def words(self) -> str:
        """Which task it is, for how long it has been missing, and why, in words."""


class HealthMonitor(Protocol):
    """Monitors the other workers and servers of a run during training."""

    @property
    def timed_out(self) -> BaseException | None:
        """The error that ends all waiting for the others; None if there is none."""

    @property
    def absent(self) -> Sequence[AbsentTask]:
        """The tasks that did not answer when they were last asked."""

    def progress(self) -> None:
        """Note that training makes progress, so that no task has to be asked."""

    def during(self, doing: str) -> AbstractContextManager[None]:
        """Monitor the others from a thread during the block; `doing` is what this process waits for."""
