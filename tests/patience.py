"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable

PATIENCE = 240.0
"""Seconds until a test gives up, which only says that a machine was not too busy for it."""


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds; a test fails if it never does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)
