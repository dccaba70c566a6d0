"""Workers come and go while they train: real processes, the account of examples, and exact steps."""

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from benchmarks.clusters.changes import BATCH, EXAMPLES, SPEC, account_of
from dsl.errors.wording import joined
from tests.runtime.tasks import PATIENCE, Process, free_ports

MOST = 4
LINE = re.compile(r"(\d) workers train from step ([\d,]+) on.*?: (worker.*)")


class Workers:
    """Workers that are started one by one, with the addresses of all that there may be."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        (folder / "spec.tfdeploy").write_text(SPEC % MOST)
        numbers = np.arange(EXAMPLES, dtype=np.int32)
        np.savez(folder / "examples.npz", number=numbers, far=np.full((EXAMPLES, 1), 1e7, np.float32))
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(MOST)]
        self.running: dict[int, Process] = {}
        self.all: list[Process] = []
        self.seen = 0  # the generations that have been waited for

    def start(self, number: int, *more: str) -> None:
        """Start a worker."""
        config = {"cluster": {"worker": self.addresses}, "task": {"type": "worker", "index": number}}
        words = ["-m", "tfdeploy", "compile-and-run", "spec.tfdeploy", "--color", "never", *more]
        self.running[number] = Process(words, {"TF_CONFIG": json.dumps(config)}, self.folder)
        self.all.append(self.running[number])
        self.stack.callback(self.running[number].close)

    def until(self, *numbers: int) -> None:
        """Wait until the chief, whichever it is, says of a generation that just these workers train in it."""
        members = joined([f"worker:{each}" for each in numbers])
        end = time.monotonic() + PATIENCE
        while not (len(lines := self._lines()) > self.seen and lines[-1][2] == members):
            assert time.monotonic() < end, "\n\n".join(each.text for each in self.all)
            for each in self.running.values():
                each.read()
            time.sleep(0.05)
        self.seen = len(lines)

    def end(self, number: int, how: signal.Signals) -> int:
        """Send a worker a signal, and return its exit code."""
        process = self.running.pop(number)
        process.process.send_signal(how)
        return process.end()

    def _lines(self) -> list[tuple[int, int, str]]:
        """Return what chiefs have told of generations, in their order: count, first step and workers."""
        found = [each for process in self.all for each in LINE.findall(process.text)]
        return sorted(
            ((int(n), int(step.replace(",", "")), who) for n, step, who in found), key=lambda e: e[1]
        )

    def generations(self) -> list[tuple[int, int]]:
        """Return the number of workers and the first step of each generation."""
        return [(count, step) for count, step, _ in self._lines()]


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


def end_all(workers: Workers) -> None:
    """Let all workers leave at once, and check the account of what they have done."""
    for each in workers.running.values():
        each.process.send_signal(signal.SIGTERM)
    for each in workers.running.values():
        assert each.end() == 128 + signal.SIGTERM
    require_exact(workers, workers.generations())


def test_a_worker_comes_and_the_chief_is_killed(workers: Workers) -> None:
    """Two begin; a third joins, and takes the weights; the first is lost for good, and another leads."""
    for each in (0, 1):
        workers.start(each)
    workers.until(0, 1)
    workers.start(3)
    workers.until(0, 1, 3)
    assert workers.end(0, signal.SIGKILL) == -signal.SIGKILL
    workers.until(1, 3)
    assert [count for count, _ in workers.generations()] == [2, 3, 2]
    end_all(workers)


@pytest.mark.full
def test_the_chief_is_lost_comes_back_and_leaves(workers: Workers) -> None:
    """No step that was finished is made again, although the last checkpoint is older; all can leave."""
    for each in (0, 1, 2):
        workers.start(each)
    workers.until(0, 1, 2)
    workers.end(0, signal.SIGKILL)
    workers.start(0)
    workers.until(0, 1, 2)
    assert "worker:1 is the chief from now on" in workers.running[1].text
    assert workers.end(1, signal.SIGTERM) == 128 + signal.SIGTERM
    workers.until(0, 2)
    workers.start(1)
    workers.until(0, 1, 2)
    assert workers.end(2, signal.SIGTERM) == 128 + signal.SIGTERM
    workers.until(0, 1)
    workers.end(1, signal.SIGKILL)
    workers.start(2)
    workers.until(0, 2)
    end_all(workers)


@pytest.mark.full
@pytest.mark.parametrize("back", [0, 1])
def test_too_few_are_left_and_one_comes_back(workers: Workers, back: int) -> None:
    """The chief and another are lost at once. The last one waits, and goes on with whoever comes back first.

    That one does not enter the generation that it was in, in which nobody trains any more.
    """
    for each in (0, 1, 2):
        workers.start(each)
    workers.until(0, 1, 2)
    for each in (0, 1):
        workers.running[each].process.send_signal(signal.SIGKILL)
    for each in (0, 1):
        workers.end(each, signal.SIGKILL)
    workers.start(back)
    workers.until(back, 2)
    end_all(workers)


def test_what_was_trained_outlasts_a_signal_while_too_few_are_there(workers: Workers) -> None:
    """The step that the last two have made is in a checkpoint, although the spec asks for none by then."""
    path = workers.folder / "spec.tfdeploy"
    path.write_text(re.sub(r"checkpoint_every = \w+", "checkpoint_every = 1_000_000", path.read_text()))
    for each in (0, 1):
        workers.start(each)
    workers.until(0, 1)
    workers.end(1, signal.SIGKILL)
    workers.running[0].until("waiting for workers: 1 of at least 2")
    end_all(workers)
    assert list(workers.folder.rglob("model.ckpt-*.json"))


def test_a_worker_with_another_spec_is_refused_and_the_others_train(workers: Workers) -> None:
    """It would make steps with them, each with its own rate; whoever has their spec may come after it."""
    workers.start(0)
    workers.running[0].until("listens at")
    workers.start(1, "--set", "train.keep=3")
    assert workers.running[1].end() == 2
    assert f"`worker:0` at {workers.addresses[0]} runs another spec" in workers.running.pop(1).text
    workers.start(1)
    workers.until(0, 1)
    end_all(workers)


def test_who_waits_for_a_chief_says_so_and_ends_by_a_signal(workers: Workers) -> None:
    """Another than the first does not begin the training at once, and is not silent meanwhile."""
    workers.start(2)
    workers.running[2].until("to train with worker:0 at ")
    assert workers.end(2, signal.SIGINT) == 128 + signal.SIGINT
