"""What an engine knows of the processes that it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


class AbsentTask(Protocol):
    """Somebody who did not answer."""

    @property
    def words(self) -> str:
        """Who it is, for how long it has been missing, and why."""


class HealthMonitor(Protocol):
    """Looks after the other workers and servers of a run while training goes on."""

    @property
    def timed_out(self) -> BaseException | None:
        """The error that ends all waiting for the others; None as long as there is none."""

    @property
    def absent(self) -> Sequence[AbsentTask]:
        """Those who did not answer when they were last asked."""

    def progress(self) -> None:
        """Note that training goes on, so that nobody need be asked."""

    def during(self, doing: str) -> AbstractContextManager[None]:
        """Look after the others in the background; `doing` says what this process waits for meanwhile."""
