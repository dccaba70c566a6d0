"""A run of which nothing comes says so and what it waits for, and a signal ends it all the same."""

import math
import os
import signal
import time
from pathlib import Path

import pytest

from tests.forked import words_of
from tests.patience import wait_until
from tests.runtime.conftest import Listener
from tests.runtime.tasks import Process, Tasks
from tests.specs import CLASSES
from tfdeploy.runtime import watchdog as module
from tfdeploy.runtime.stop import StopSignals
from tfdeploy.runtime.watchdog import Activity, Watchdog

SPEC = f"""{CLASSES}
data {{ train = python("mine:examples") }}
devices {{ cpu = 1 }}
clones {{ batch = 4 }}
update {{ optimizer = SGD(0.1) }}
train {{ steps = 100, checkpoint_every = 2, directory = "run" }}
"""
BLOCKS = """
import threading
import numpy as np

def examples():
    for number in range(20):
        yield {"x": np.ones([4], np.float32), "label": np.int32(number % 2)}
    threading.Event().wait()
"""


def test_it_is_said_again_when_the_wait_has_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait is told a few times, not every moment; what goes on, or is at nothing, is not told of."""
    monkeypatch.setattr(module, "AT_FIRST", 0.5)
    monkeypatch.setattr(module, "LEAST", 0.5)
    monkeypatch.setattr(module, "LOOK_EVERY", 0.01)
    activity, warned = Activity(), Listener()
    activity.causes["data"] = lambda: [("the data have not come", None)]
    with StopSignals() as stop, Watchdog(activity, stop, warned).watching():
        time.sleep(0.7)
        assert warned.warnings == []
        with activity.doing("step 7"):
            wait_until(lambda: len(warned.warnings) >= 3)
            waited = activity.idle
    assert waited >= 0.5 * 2 * 2
    assert all(
        each.message.startswith("the run has made no progress in step 7 for ") for each in warned.warnings
    )
    assert {each.notes[0] for each in warned.warnings} == {"the data have not come"}


def test_a_source_that_blocks_is_named_and_can_be_interrupted(tmp_path: Path) -> None:
    """The function, the example and the place in the spec are told; one Ctrl-C ends the run, in words."""
    (tmp_path / "spec.tfdeploy").write_text(SPEC)
    (tmp_path / "mine.py").write_text(BLOCKS)
    run = Process(["-m", "tfdeploy", "compile-and-run", "spec.tfdeploy", "--allow-python"], {}, tmp_path)
    try:
        said = run.until("warning[TFD773]")
        assert said.startswith("warning[TFD773]: the run has made no progress in step 6 for ")
        assert "example 20 of `mine:examples` was asked for" in run.until("was asked for")
        assert "spec.tfdeploy:10:" in run.text
        run.send(signal.SIGINT)
        assert run.end() == 130
    finally:
        run.close()
    assert "SIGINT has ended the run, which had made no progress in step 6" in run.text
    assert "the newest checkpoint is of step 4; the same command continues from there" in run.text
    assert "Traceback" not in run.text
    assert (tmp_path / "run" / "checkpoints" / "model.ckpt-4.index").exists()


PROGRAM = """
from pathlib import Path
import tfdeploy
from tfdeploy.runtime.records.lock import locked
from tfdeploy.runtime.show.reporting import Reporter

class Printed(Reporter):
    def warn(self, found):
        print(found.code, found.message, *found.notes, flush=True)

try:
    tfdeploy.run(tfdeploy.load("spec.tfdeploy", allow_python=True), reporter=Printed())
except SystemExit:
    with locked(Path("run")):
        print("free", flush=True)
    raise
"""


def test_from_python_a_run_that_is_stuck_can_be_ended(tmp_path: Path) -> None:
    """A clone without an example is named; SIGTERM raises its exception, and the directory is free again."""
    spec = SPEC.replace("data {", "data { per_clone = shard,").replace("cpu = 1", "cpu = 2")
    (tmp_path / "spec.tfdeploy").write_text(spec)
    (tmp_path / "mine.py").write_text(BLOCKS)
    (tmp_path / "program.py").write_text(PROGRAM)
    run = Process(["program.py"], {}, tmp_path)
    try:
        assert "the run has made no progress in step 3" in run.until("TFD773")
        run.send(signal.SIGTERM)
        assert run.end() == 143
    finally:
        run.close()
    assert "SIGTERM has ended the run, which had made no progress in step 3" in run.text
    assert "example 20 of `mine:examples` was asked for by clone" in run.text
    assert "free" in run.text
    assert "Traceback" not in run.text


def test_the_first_of_a_kind_says_little_about_the_others() -> None:
    """It builds what the others use; a signal ends it sooner than what goes on after it."""
    activity = Activity()
    assert (activity.patience, activity.patience_to_end) == (math.inf, module.LEAST)
    activity.note_progress()
    assert (activity.patience, activity.patience_to_end) == (math.inf, module.LEAST)
    with activity.doing("step 1", kind="step"):
        assert (activity.patience, activity.patience_to_end) == (module.AT_FIRST, module.LEAST)
    times = module.Times()
    for seconds, patience in (100.0, 200.0), (1.0, module.LEAST), (7.0, 35.0), (3.0, 35.0):
        times.add(seconds)
        assert times.patience == patience


@pytest.mark.slow
def test_a_server_that_is_stopped_is_named_and_the_run_can_be_interrupted(tasks: Tasks) -> None:
    """In one graph the client sits in a step; one Ctrl-C ends it, and no process or file is left."""
    tasks.write("tasks = 1", "tasks = 1")
    more = ("--set", "train.directory=run", "--set", "train.steps=10000000", "--set", "train.log_every=10")
    run = tasks.start("compile-and-run", str(tasks.spec), *more, TMPDIR=str(tasks.folder))
    run.until(" 20/10,000,000")
    there = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    pids = [pid for pid in there if parent_of(pid) == run.pid and "--task" in words_of(pid)]
    assert len(pids) == 2
    (server,) = [pid for pid in pids if "ps:0" in words_of(pid)]
    os.kill(server, signal.SIGSTOP)
    assert "the run has made no progress in step " in run.until("warning[TFD773]")
    run.until("ps:0 at 127.0.0.1:")
    run.send(signal.SIGINT)
    assert run.end() == 130
    assert "SIGINT has ended the run, which had made no progress in step " in run.text
    wait_until(lambda: not any(words_of(pid) for pid in pids))
    assert not (tasks.folder / "run" / "cluster.json").exists()
    assert list(tasks.folder.glob("tfdeploy-*")) == []


STOPPING = """
import os, signal, sys
from tfdeploy.runtime.cluster.session_target import SessionTarget

opened, victim = SessionTarget.session, int(sys.argv[1])


def session(*given):
    os.kill(victim, signal.SIGSTOP)
    print("stopped", flush=True)
    return opened(*given)


SessionTarget.session = session
sys.argv = ["tfdeploy", *sys.argv[2:]]
from tfdeploy.cli import main

main()
"""


AT_THE_DATA = STOPPING.replace("cluster.session_target import SessionTarget", "train import run as module")
AT_THE_DATA = AT_THE_DATA.replace("SessionTarget.session", "module.feed_training")
AT_THE_DATA = AT_THE_DATA.replace("def session", "def feed").replace("= session", "= feed")


@pytest.mark.full
@pytest.mark.parametrize("replication", ["in_graph", "between_graph"])
@pytest.mark.parametrize(
    ("program", "victim", "doing"),
    [(STOPPING, 0, "setting the initial values"), (AT_THE_DATA, -1, "beginning to read the ")],
    ids=["session", "data"],
)
def test_no_wait_before_the_first_step_outlasts_a_signal(
    tasks: Tasks, program: str, victim: int, doing: str, replication: str
) -> None:
    """A server stops when the session is to be opened, or when all variables are set and data to be read.

    TensorFlow waits in a session for a server that has stopped since it was asked; the run says for which.
    """
    own = ["--set", f"update.replication={replication}"]
    servers = [tasks.serve("ps:0", *own)]
    if replication == "in_graph":
        servers += [tasks.serve(f"worker:{each}", *own) for each in range(2)]
    else:
        own += ["--task", "worker:0"]
    for each in servers:
        each.until("listens")
    run = tasks.start_script(program, str(servers[victim].pid), "compile-and-run", str(tasks.spec), *own)
    run.until("stopped")
    run.send(signal.SIGINT)
    assert run.end() == 130
    assert f"SIGINT has ended the run, which had made no progress in {doing}" in run.text
    assert program is AT_THE_DATA or f"ps:0 at {tasks.address(0)} for " in run.text


def parent_of(pid: int) -> int | None:
    """Return the parent of a process, None where it has gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
