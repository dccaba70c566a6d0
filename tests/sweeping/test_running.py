"""Parts of the machine, and the processes on them."""

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import refusal
from tfdeploy.runtime.launch import task_processes
from tfdeploy.runtime.stop import StopSignals
from tfdeploy.sweeping.running import Part, Runner, parts, visible_gpus
from tfdeploy.sweeping.sweep import Sweep, SweepRecord, Trial

SCRIPT = """
import os, sys, time
print(sorted(os.sched_getaffinity(0)), os.environ.get("CUDA_VISIBLE_DEVICES"), *sys.argv[3:], flush=True)
time.sleep(0.3)
print("a word before", file=sys.stderr)
print("error[TFD730]: the loss is nan", file=sys.stderr)
sys.exit(int(sys.argv[3]))
"""


def test_parts_do_not_overlap() -> None:
    """They have equal sizes; what does not go round is left out, and the only part has everything."""
    found = parts(3, range(8), ["a", "b", "c", "d"], needed=1)
    assert found == [
        Part(frozenset({0, 1}), ("a",)), Part(frozenset({2, 3}), ("b",)), Part(frozenset({4, 5}), ("c",)),
    ]  # fmt: skip
    assert parts(1, range(8), ["a"], needed=9) == [Part()]
    assert parts(2, [4, 7], [], needed=0) == [Part(frozenset({4})), Part(frozenset({7}))]


@pytest.mark.parametrize(
    ("count", "gpus", "needed", "words"),
    [
        (3, [], 0, "3 runs at once need 1 cores each, and there are 2 cores"),
        (2, ["0", "1", "2"], 2, "2 runs at once need 2 GPUs each, and there are 3 GPUs"),
        (2, [], 1, "2 runs at once need 1 GPUs each, and there are 0 GPUs"),
    ],
)
def test_parts_that_are_too_small(count: int, gpus: list[str], needed: int, words: str) -> None:
    """The message says what there is and what is needed."""
    found = refusal(parts, count, [0, 1], gpus, needed=needed)
    assert (found.code, found.message) == ("TFD777", words)


def test_gpus_that_may_be_used(tmp_path: Path) -> None:
    """Those of CUDA_VISIBLE_DEVICES, else those of the driver."""
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "3, GPU-1,"}, tmp_path) == ["3", "GPU-1"]
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == []
    assert visible_gpus({}, tmp_path / "none") == []
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    assert visible_gpus({}, tmp_path) == ["0", "1"]


def test_processes_on_their_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part has two at a time; each process sees its cores and GPUs; a failure is its first error."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(task_processes, "SCRIPT", script)
    cores = sorted(os.sched_getaffinity(0))
    first, second = Part(frozenset(cores[:1]), ("4",)), Part(frozenset(cores[1:2]), ("5", "6"))
    sweep = Sweep.open(tmp_path / "sweep", SweepRecord("s", "d", "loss", "lowest"))
    trials = [sweep.trial({"a.b": str(at)}) for at in range(5)]
    at_once, ended = [], []

    def tell(trial: Trial, seconds: float) -> None:
        at_once.append(sorted(id(each.part) for each in runner.running))
        ended.append((trial.number, trial.failure, seconds > 0))

    codes = {1: 0, 2: 1, 3: 0, 4: 143, 5: -9}

    def command(trial: Trial) -> list[str]:
        return [str(codes[trial.number])]

    with StopSignals() as stop:
        runner = Runner(sweep, command, [first, second], stop, tell)
        runner.run(iter(trials))
    assert all(len(set(each)) == len(each) for each in at_once)
    assert sorted(number for number, _, _ in ended) == [1, 2, 3, 4, 5]
    failures = {each.number: each.failure for each in sweep.record.trials}
    assert failures == {
        1: None, 2: "error[TFD730]: the loss is nan", 3: None, 4: None, 5: "error[TFD730]: the loss is nan",
    }  # fmt: skip
    logs = [(tmp_path / "sweep" / f"{at:03}.log").read_text().splitlines()[0] for at in range(1, 6)]
    places = {each.rpartition(" ")[0] for each in logs}
    assert places == {f"{cores[:1]} 4", f"{cores[1:2]} 5,6"}


def test_a_signal_ends_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No trial is begun after it, and no process is left."""
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    monkeypatch.setattr(task_processes, "SCRIPT", script)
    sweep = Sweep.open(tmp_path / "sweep", SweepRecord("s", "d", "loss", "lowest"))
    trials = (sweep.trial({"a.b": str(at)}) for at in itertools.count())
    children: list[Any] = []
    start = task_processes.start

    def noted(*arguments: Any) -> Any:
        children.append(start(*arguments))
        if len(children) == 2:
            os.kill(os.getpid(), 15)
        return children[-1]

    monkeypatch.setattr(task_processes, "start", noted)
    with StopSignals() as stop:
        Runner(sweep, lambda _: [], [Part(), Part(frozenset({0}))], stop, lambda *_: None).run(trials)
    assert len(children) == 2
    assert [each.process.returncode for each in children] == [-15, -15]
