"""Workers come and go while they train: real processes, the account of examples, and exact steps."""

from __future__ import annotations

import json
import re
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.clusters.changes import BATCH, EXAMPLES, SPEC, account_of
from tests.runtime.tasks import Process, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = 4
LINE = re.compile(r"(\d) workers train from step ([\d,]+) on")


class Workers:
    """Workers that are started one by one, with the addresses of all that there may be."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        (folder / "spec.tfdeploy").write_text(SPEC % MOST)
        numbers = np.arange(EXAMPLES, dtype=np.int32)
        np.savez(folder / "examples.npz", number=numbers, far=np.full((EXAMPLES, 1), 1e7, np.float32))
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(MOST)]
        self.running: dict[int, Process] = {}

    def start(self, number: int) -> None:
        """Start a worker."""
        config = {"cluster": {"worker": self.addresses}, "task": {"type": "worker", "index": number}}
        words = ["-m", "tfdeploy", "compile-and-run", "spec.tfdeploy", "--color", "never"]
        self.running[number] = Process(words, {"TF_CONFIG": json.dumps(config)}, self.folder)
        self.stack.callback(self.running[number].close)

    def until(self, members: str) -> None:
        """Wait until the chief says that just these workers train."""
        self.running[0].until(f": {members}")

    def end(self, number: int, how: signal.Signals) -> int:
        """Send a worker a signal, and return its exit code."""
        process = self.running.pop(number)
        process.process.send_signal(how)
        return process.end()

    def generations(self) -> list[tuple[int, int]]:
        """Return the number of workers and the first step of each generation that the chief has told of."""
        text = self.running[0].text
        return [(int(count), int(step.replace(",", ""))) for count, step in LINE.findall(text)]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    """Yield workers of which two at least train."""
    with ExitStack() as stack:
        yield Workers(tmp_path, stack)


def require_exact(workers: Workers, generations: list[tuple[int, int]]) -> None:
    """Check that every step had the examples of its workers, and that none was used once too often."""
    step, examples, used = account_of(workers.folder)
    ends = [first for _, first in generations[1:]] + [step + 1]
    made = [(end - first) * count for (count, first), end in zip(generations, ends, strict=True)]
    assert examples == sum(made) * BATCH
    assert used.sum() == examples
    assert used.max() - used.min() <= 1


def test_a_worker_comes_another_is_killed_and_one_leaves(workers: Workers) -> None:
    """Two begin; a third joins, and takes the weights; one is killed, one comes again, and one leaves."""
    for each in (0, 1):
        workers.start(each)
    workers.until("worker:0 and worker:1")
    workers.start(3)
    workers.until("worker:0, worker:1 and worker:3")
    assert workers.end(1, signal.SIGKILL) == -signal.SIGKILL
    workers.until("worker:0 and worker:3")
    workers.start(2)
    workers.until("worker:0, worker:2 and worker:3")
    assert workers.end(3, signal.SIGTERM) == 128 + signal.SIGTERM
    workers.until("worker:0 and worker:2")
    found = workers.generations()
    assert [count for count, _ in found] == [2, 3, 2, 3, 2]
    chief = workers.running[0]
    chief.process.send_signal(signal.SIGTERM)
    assert chief.end() == 128 + signal.SIGTERM
    require_exact(workers, found)


@pytest.mark.full
def test_the_chief_is_lost_and_goes_on_with_the_weights_of_others(workers: Workers) -> None:
    """No step that was finished is made again, although the last checkpoint is older."""
    for each in (0, 1, 2):
        workers.start(each)
    workers.until("worker:0, worker:1 and worker:2")
    before = workers.generations()
    workers.end(0, signal.SIGKILL)
    workers.start(0)
    workers.until("worker:0, worker:1 and worker:2")
    after = workers.generations()
    workers.end(2, signal.SIGTERM)
    workers.until("worker:0 and worker:1")
    found = [*before, *after, *workers.generations()[len(after) :]]
    chief = workers.running[0]
    chief.process.send_signal(signal.SIGTERM)
    chief.end()
    require_exact(workers, found)
