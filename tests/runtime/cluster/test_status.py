"""What `status` says of each task, of answers that only pretend."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from dsl import ir
from tfdeploy.runtime.cluster import monitor
from tfdeploy.runtime.cluster.identity import Answer, Identity, NoAnswer
from tfdeploy.runtime.cluster.monitor import ClusterRecord, TaskStatus, cluster_record
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.records.directory import RunDirectory

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
