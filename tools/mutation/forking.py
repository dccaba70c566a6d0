"""A process that has loaded what is slow to load, and forks itself for every run of some tests.

It reads lines of JSON, `{"tests": [...], "patience": seconds}`, and answers each with `missed`, `seen` or
`hung`. Nothing of this project is imported before the fork, so that every child reads the source as it is
then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time


def main() -> None:
    """Load, then serve."""
    answers = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    import keras  # noqa: F401
    import numpy  # noqa: F401, ICN001
    import pytest
    import tensorflow  # noqa: F401, ICN001

    for line in sys.stdin:
        wanted = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *wanted["tests"]])))
        print(_wait(child, wanted["patience"]), file=answers, flush=True)


def _wait(child: int, patience: float) -> str:
    """Wait for a child and what it has started; a child that takes too long is ended."""
    ends = time.monotonic() + patience
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return "missed" if os.waitstatus_to_exitcode(status) == 0 else "seen"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


if __name__ == "__main__":
    main()
