"""The devices of servers: the machine of a task has the GPUs that the spec gives its job."""

from __future__ import annotations

from tests.runtime.tasks import SPEC
from tests.support import refusal_of, spec_of
from tfdeploy.runtime.cluster.server import _require_gpus
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task

HOSTS = {"ps": ["a:1", "a:2"], "worker": ["a:3", "a:4"]}
JOBS = {"ps": "tasks = 2", "worker": "tasks = 2, cpu = 2, gpu = 2"}


def require(task: str, gpus: int, **settings: str) -> None:
    """Ask for the GPUs of a task on a machine that has some."""
    own = Task.parse(task)
    found = ("CPU:0", "CPU:1", *(f"GPU:{each}" for each in range(gpus)))
    devices = tuple(f"/job:{own.job}/replica:0/task:{own.index}/device:{each}" for each in found)
    _require_gpus(spec_of(SPEC.format(**JOBS), **settings), Membership(Cluster.of(HOSTS), own, ""), devices)


def test_a_task_without_the_gpus_of_its_own_job_is_refused() -> None:
    """The message names the first GPU that is missing, and all devices that the task has."""
    found = refusal_of(lambda: require("worker:1", 1))
    assert (found.code, found.message) == ("TFD504", "this machine has no `worker[1].gpu[1]`")
    assert found.notes == ("devices found: `worker[1].cpu[0]`, `worker[1].cpu[1]`, `worker[1].gpu[0]`",)


def test_other_tasks_are_not_refused() -> None:
    """One of a job without GPUs, one that has as many as it needs, and any if ops may be elsewhere."""
    require("ps:0", 0)
    require("worker:0", 2)
    require("worker:0", 0, devices__soft_placement="true")
