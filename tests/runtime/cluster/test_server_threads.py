"""The threads of servers: tasks on one machine share its cores."""

from __future__ import annotations

import os

import pytest

from tests.runtime.tasks import SPEC
from tests.support import spec_of
from tfdeploy.runtime.cluster.server import server_config
from tfdeploy.runtime.membership.addresses import Cluster, Task

ONE_MACHINE = {"ps": ["a:1", "a:2"], "worker": ["a:3", "a:4", "a:5"]}
TWO_MACHINES = {"ps": ["a:1", "b:1"], "worker": ["a:2", "c:1", "c:2"]}
JOBS = {"ps": "tasks = 2", "worker": "tasks = 3"}


@pytest.fixture(autouse=True)
def six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have six cores, and no wish of the environment."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)


def threads(
    addresses: dict[str, list[str]], task: str, jobs: dict[str, str] = JOBS, **settings: str
) -> tuple[int, bool]:
    """Return how many threads of a task may work on one op, and whether threads spin before they sleep."""
    spec = spec_of(SPEC.format(**jobs), **settings)
    config = server_config(spec, Task.parse(task), Cluster.of(addresses))
    return config.intra_op_parallelism_threads, not config.experimental.disable_thread_spinning


def test_servers_of_a_machine_share_its_cores_and_so_do_its_workers() -> None:
    """Two servers get half of the cores each, three workers a third each, and none spins."""
    assert [threads(ONE_MACHINE, each) for each in ("ps:1", "worker:0")] == [(3, False), (2, False)]


def test_a_task_has_the_cores_of_its_own_machine() -> None:
    """Only tasks with the same host count; alone, a task is left to TensorFlow, which uses all cores."""
    found = [threads(TWO_MACHINES, each) for each in ("ps:0", "ps:1", "worker:0", "worker:2")]
    assert found == [(0, False), (0, True), (0, False), (3, False)]


def test_more_tasks_than_cores() -> None:
    """Each op has at least one thread."""
    many = {"ps": ["a:1"], "worker": [f"a:{each}" for each in range(2, 10)]}
    assert threads(many, "worker:7") == (1, False)


def test_the_spec_and_then_the_environment_have_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `devices` says counts most; a number in TensorFlow's own variable is left to TensorFlow."""
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "5")
    assert threads(ONE_MACHINE, "worker:0") == (0, False)
    assert threads(ONE_MACHINE, "worker:0", devices__intra_op_threads="4") == (4, False)


def test_tasks_with_gpus_keep_the_choice_of_tensorflow() -> None:
    """Few ops run on their CPUs, and these may use every core."""
    jobs = {**JOBS, "worker": "tasks = 3, gpu = 1"}
    assert [threads(ONE_MACHINE, each, jobs) for each in ("ps:0", "worker:0")] == [(3, False), (0, False)]
