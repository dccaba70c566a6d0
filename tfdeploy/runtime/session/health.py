"""How an engine knows whether the processes that it depends on are running."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


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
