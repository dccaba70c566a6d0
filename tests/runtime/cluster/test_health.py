"""How tasks do: what a process measures of itself, what others make of it, and what `status` says."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from attrs import evolve

import grammar
from dsl import ir
from dsl.diagnostics import RunError, SpecError
from tests.runtime.tasks import SPEC, Tasks, free_ports
from tfdeploy.runtime.cluster import monitor
from tfdeploy.runtime.cluster.health import Health, SelfMeasurement
from tfdeploy.runtime.cluster.identity import Answer, Identity, NoAnswer
from tfdeploy.runtime.cluster.monitor import (
    ClusterRecord,
    TaskStatus,
    cluster_record,
    cluster_status,
    lags,
)
from tfdeploy.runtime.cluster.prometheus import exposition, prometheus
from tfdeploy.runtime.cluster.task_table import task_table, watching
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.watchdog import Activity

SENDER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(b"x" * 100_000)
    print(len(connection.recv(1000)), flush=True)
    input()
"""


def test_a_process_counts_what_it_sends_to_others_and_receives() -> None:
    """Also on connections that are closed by now, and not what it sends to itself."""
    own = SelfMeasurement(Activity(what="step 7", step=6, examples=60))
    before = own.now()
    assert (before.doing, before.step, before.examples, before.late) == ("step 7", 6, 60, False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as itself, server.accept()[0] as other:
            itself.sendall(bytes(1 << 20))
            while own.now().received - before.received > 1 << 19:
                other.recv(1 << 20)
        sender = subprocess.Popen(
            [sys.executable, "-c", SENDER, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        connection, _ = server.accept()
        with connection:
            left = 100_000
            while left:
                left -= len(connection.recv(1 << 16))
            connection.sendall(b"y" * 500)
            assert int(sender.stdout.readline()) == 500
            after = own.now()
    assert 100_000 <= after.received - before.received < 101_000
    assert 500 <= after.sent - before.sent < 600
    sender.communicate(b"\n")
    assert own.now().received == after.received
    assert after.memory > 1 << 24
    assert 0 < after.processor - before.processor < 60
    assert after.receiving > 0


NOW = Health(1000.0, doing="step 7", idle=40.0, late=True, step=6, examples=60, memory=3 << 20)


@pytest.mark.parametrize(
    ("health", "words", "stuck"),
    [
        (evolve(NOW, late=False), "step 7", False),
        (NOW, "stuck: step 7 for 40.0 s, and no processor time is used", True),
        (evolve(NOW, cores=1.94), "step 7 for 40.0 s, and 1.9 cores compute", False),
        (
            evolve(NOW, waits=("a has not come",)),
            "step 7 for 40.0 s: a has not come; no processor time is used",
            False,
        ),
        (evolve(NOW, waiting=True), "step 7 for 40.0 s", False),
    ],
)
def test_a_stuck_task_is_told_from_one_that_computes_or_waits(
    health: Health, words: str, *, stuck: bool
) -> None:
    """By the processor time that it uses, and what it knows that it waits for."""
    assert (health.words, health.is_stuck) == (words, stuck)
    assert Health.read(health.to_json()) == health


def of(name: str, step: int | None, updates: int | None = None) -> TaskStatus:
    """Return the status of a task."""
    return TaskStatus(name, "h:1", True, "up", evolve(NOW, late=False, step=step, updates=updates))


def test_a_clock_that_is_set_back_changes_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Speeds are measured by a clock that is never set, or they would be beyond all measure for as long."""
    measurement = SelfMeasurement(Activity(examples=0))
    measurement.now()
    assert measurement.activity is not None
    measurement.activity.examples = 10
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600.0)
    time.sleep(0.1)
    assert 0.0 < measurement.now().speed <= 100.0


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_a_client_by_another_clock_is_known_from_one_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """What it has published says nothing by its time alone: one that lives publishes something else."""
    monkeypatch.setattr(monitor, "PUBLISH_EVERY", 0.0)
    monkeypatch.setattr(monitor, "ask", lambda *_: NoAnswer("refused", "nothing listens there"))
    moves = True

    def read(_: str, name: str = "") -> Health:
        return Health(time.time() + ahead if moves else ahead, doing=name)

    monkeypatch.setattr(monitor, "read_health", read)
    assert [each.name for each in cluster_status(MEMBERSHIP)] == ["ps:0", "worker:0", "client"]
    moves = False
    assert [each.name for each in cluster_status(MEMBERSHIP)] == ["ps:0", "worker:0"]


def test_how_far_tasks_are_behind() -> None:
    """By the global step, or by their own updates if they have such; servers make no steps."""
    missing = TaskStatus("worker:2", "h:1", False, "nothing listens there")
    assert lags([of("ps:0", None), of("worker:0", 7), of("worker:1", 5), missing]) == {
        "worker:0": 0,
        "worker:1": 2,
    }
    assert lags([of("worker:0", 90, 50), of("worker:1", 91, 40)]) == {"worker:0": 0, "worker:1": 10}
    assert lags([missing]) == {}


LATE = evolve(NOW, cores=1.5, receiving=2048.0, sending=1024.0, speed=1234.4)


def test_the_table_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 80 columns: what is too long is cut, and told in full below if something is wrong."""
    monkeypatch.setenv("COLUMNS", "80")
    waits = evolve(NOW, late=False, doing="the wait until worker:0 makes the step", step=12345)
    task_table(
        [
            TaskStatus("ps:0", "h:1", True, "up", Health(1.0, memory=5 << 30)),
            TaskStatus("worker:0", "h:1", True, "up", LATE),
            TaskStatus("worker:1", "h:1", True, "up", waits),
            TaskStatus("worker:2", "h:1", False, "nothing listens there"),
        ],
        color=False,
    )
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        "task       step    lag examples/s   memory     in/s    out/s cores doing",
        "ps:0          .      .          . 5.00 GiB        .        .   0.0",
        "worker:0      6 12,339      1,234 3.00 MiB 2.00 KiB 1.00 KiB   1.5 step 7",
        "worker:1 12,345      0          0 3.00 MiB        .        .   0.0 the wait unt\u2026",
        "worker:0: step 7 for 40.0 s, and 1.5 cores compute",
    ]


def test_what_is_watched_comes_through_a_pipe_as_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table is written when it is known, on lines of its own, and not only the last one at the end."""
    monkeypatch.setattr("tfdeploy.runtime.cluster.task_table.AGAIN", 0.0)
    shown: list[str] = []

    def ask() -> list[TaskStatus]:
        shown.append(capsys.readouterr().out)
        if len(shown) > 2:
            raise SpecError([])
        return [TaskStatus("worker:0", "h:1", False, "nothing listens there")]

    watching(ask, color=False)
    assert shown[0] == ""
    assert shown[1] == shown[2]
    assert shown[1].endswith("worker:0: nothing listens there\n")
    assert capsys.readouterr().out == "the run is over\n"


def test_prometheus_reads_what_a_run_does() -> None:
    """In its text format, at the address of the spec, without a cluster as well, and until the run ends."""
    (port,) = free_ports(1)
    spec = grammar.read(
        "s.tfdeploy",
        (("train.prometheus", f'"{port}"'),),
        text=SPEC.format(ps="tasks = 1", worker="tasks = 1"),
    ).spec
    assert spec is not None
    own = SelfMeasurement(Activity(step=3, examples=48))
    with prometheus(spec, None, own, 'my "run"'):
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            lines = answer.read().decode().splitlines()
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/secret")
        with pytest.raises(RunError) as refused, prometheus(spec, None, own, "other"):
            pass
    assert refused.value.diagnostic.code == "TFD762"
    assert refused.value.diagnostic.span.text == f'"{port}"'
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/metrics")
    assert r'tfdeploy_step{run="my \"run\"",task=""} 3' in lines
    assert r'tfdeploy_examples_total{run="my \"run\"",task=""} 48' in lines


def test_the_text_is_in_the_format_of_prometheus() -> None:
    """Each number has its help and type before it, once; what a task does not have is left out."""
    text = exposition(
        "r", [of("ps:0", None), of("worker:0", 7), TaskStatus("worker:1", "h:1", False, "gone")]
    )
    seen: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in seen
        elif line.startswith("# TYPE "):
            assert line.split()[2] == name
            seen[name] = line.split()[3]
        else:
            assert re.fullmatch(rf'{name}\{{run="r",task="[a-z]+:\d"\}} -?\d+(\.\d+)?(e[+-]\d+)?', line), line
    assert {name.endswith("_total") for name, kind in seen.items() if kind == "counter"} == {True}
    assert 'tfdeploy_up{run="r",task="worker:1"} 0' in text
    assert 'tfdeploy_step{run="r",task="worker:0"} 7' in text
    assert 'tfdeploy_step{run="r",task="ps:0"}' not in text


@pytest.mark.parametrize("text", ["x", "70000", "host:", "[::1:9", "a b:9", "0.0.0.0:0"])
def test_an_address_that_is_none_is_refused_at_its_place(text: str) -> None:
    """Before anything is trained."""
    (found,) = grammar.read(
        "s.tfdeploy",
        (("train.prometheus", json.dumps(text)),),
        text=SPEC.format(ps="tasks = 1", worker="tasks = 1"),
    ).diagnostics
    assert found.code == "TFD769"
    assert found.span.text == json.dumps(text)


SOURCE = """
import json, os, threading
import numpy as np

def examples(blocks):
    own = json.loads(os.environ["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    for number in range(10**9):
        if own and number == 400:
            while True:
                if blocks:
                    threading.Event().wait()
        yield {"image": np.ones(16, np.float32), "digit": np.int32(number % 4)}
"""


@pytest.mark.full
@pytest.mark.parametrize("blocks", [True, False])
def test_status_tells_a_task_that_computes_from_one_that_waits(tasks: Tasks, *, blocks: bool) -> None:
    """A step lasts as long on both: one reads an example that never comes, one computes it for ever."""
    tasks.write("tasks = 1", "tasks = 2")
    (tasks.folder / "source.py").write_text(SOURCE)
    text = tasks.spec.read_text()
    call = f'python("source:examples", blocks = {str(blocks).lower()})'
    tasks.spec.write_text(re.sub(r"synthetic\(.*", call, text))
    more = ("--set", "update.replication=between_graph", "--set", "train.directory=run", "--allow-python")
    run = tasks.start("compile-and-run", str(tasks.spec), "--set", "train.steps=100000", *more)
    run.until("worker:0 | step ")
    found: list[Health] = []
    told = "no processor time is used" if blocks else "cores compute"

    def is_told_apart() -> bool:
        """Look as often as is needed, because on a busy machine it also takes more processor time to wait."""
        status = tasks.start("status", str(tasks.spec), "--json", *more)
        status.end()
        rows = json.loads(status.text[status.text.index("[") :])
        found[:] = [
            Health(**(row["health"] | {"waits": tuple(row["health"]["waits"])}))
            for row in rows
            if row["health"]
        ]
        late = len(found) == 3 and found[2].late and found[2].idle > 15
        return late and found[2].words.endswith(told)

    run.wait_for(is_told_apart)
    _, chief, worker = found
    assert worker.doing == "computing the gradients of a step"
    assert "gradients of worker:1 have not come" in run.until("gradients of worker:1")
    assert chief.step == worker.step


TASK = Task("worker", 0)
CLUSTER = Cluster.of({"ps": ["p:1"], "worker": ["w:1"]})
MEMBERSHIP = Membership(CLUSTER, None, "f00")
OWN = Identity("worker", 0, "f00", "0", "0", "1", "host", 7, 1000.0, "s")


@pytest.mark.parametrize(
    ("found", "well", "words"),
    [
        (Answer(TASK, OWN), True, "up for 3 min 20 s, process 7 on host"),
        (Answer(TASK, evolve(OWN, started=1300.0)), True, "up for 0.00 s, process 7 on host"),
        (
            Answer(TASK, evolve(OWN, spec_sha256="x")),
            False,
            "up for 3 min 20 s, process 7 on host, with another spec",
        ),
        (Answer(TASK, None), False, "starting, or no server of tfdeploy"),
        (Answer(Task("ps", 0), OWN), False, "ps:0 answers there"),
        (NoAnswer("silent", "nothing answers"), False, "nothing answers"),
    ],
)
def test_the_status_of_a_task(monkeypatch: pytest.MonkeyPatch, found: Any, words: str, *, well: bool) -> None:
    """A task is well if it is the one that is wanted, with the same spec; a clock may be ahead."""
    monkeypatch.setattr(monitor, "ask", lambda *_: found)
    monkeypatch.setattr(monitor, "read_text", lambda *_: None)
    monkeypatch.setattr(monitor.time, "time", lambda: 1200.0)
    assert monitor._status(MEMBERSHIP, TASK) == TaskStatus("worker:0", "w:1", well=well, words=words)


@pytest.mark.parametrize("launched", [False, True])
def test_the_addresses_are_kept_while_a_launcher_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, launched: bool
) -> None:
    """Only those of a launcher that lives, in the run directory, and until the run has ended."""
    launcher = os.getpid() if launched else None
    spec = ir.Spec(ir.Model("m"), train=ir.Train(directory=str(tmp_path)))
    directory = RunDirectory.of(spec)
    with cluster_record(directory, None):
        assert not directory.cluster.exists()
    with cluster_record(directory, evolve(MEMBERSHIP, launcher=launcher)):
        assert monitor._read_record(spec) == (MEMBERSHIP if launched else None)

        def gone(_process: int, _signal: int) -> None:
            raise ProcessLookupError

        monkeypatch.setattr(os, "kill", gone)
        assert monitor._read_record(spec) is None
    assert not directory.cluster.exists()


@pytest.mark.parametrize("jobs", [{}, {"ps": ()}, {"ps": ("nowhere",)}, {"a b": ("p:1",)}])
def test_a_record_without_tasks_or_addresses_is_none(jobs: dict[str, tuple[str, ...]]) -> None:
    """What cannot be asked is no cluster."""
    with pytest.raises(ValueError, match=r"without tasks|form"):
        ClusterRecord(7, "f00", jobs)
    ClusterRecord(7, "f00", {"ps": (), "worker": ("w:1",)})
