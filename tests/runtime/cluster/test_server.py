"""The server of a task: where it listens and is reached, its devices, its memory and its threads."""

import os
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.runtime.tasks import SPEC
from tests.support import refusal, refusal_of, spec_of
from tfdeploy.runtime.cluster import server
from tfdeploy.runtime.cluster.roster import Changed
from tfdeploy.runtime.cluster.server import _require_gpus, listening_host, server_config
from tfdeploy.runtime.cluster.session_target import SessionTarget
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.session.faults import is_lost_task
from tfdeploy.runtime.stop import Interrupted
from tfdeploy.runtime.watchdog import Activity

pytestmark = pytest.mark.usefixtures("six_cores")


def membership(host: str, *, everywhere: bool = False) -> Membership:
    """Return the only worker of a cluster, at a host that the spec gives it."""
    cluster = Cluster.of({"worker": [f"{host}:2222"]})
    return Membership(cluster, Task("worker", 0), "", "spec", listen_everywhere=everywhere)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("no-such-host.invalid", "`no-such-host.invalid` leads to no address"),
        ("192.0.2.1", "`192.0.2.1` leads to other machines' addresses"),  # of no machine: kept for examples
    ],
)
def test_a_host_that_is_not_this_machine(host: str, reason: str) -> None:
    """It is an error, and the port is not opened to everybody, unless that is asked for."""
    found = refusal(listening_host, membership(host))
    assert found.code == "TFD762"
    assert found.message.endswith(reason)
    assert "--listen-everywhere" in (found.help or "")
    assert listening_host(membership(host, everywhere=True)) is None


def test_the_own_address_is_taken_also_when_all_may_be() -> None:
    """The option is for hosts that lead to no address of this machine, and changes nothing for others."""
    for everywhere in (False, True):
        assert listening_host(membership("localhost", everywhere=everywhere)) == "127.0.0.1"


HOSTS = {"ps": ["a:1", "a:2"], "worker": ["a:3", "a:4"]}
WITH_GPUS = {"ps": "tasks = 2", "worker": "tasks = 2, cpu = 2, gpu = 2"}


def require(task: str, gpus: int, **settings: str) -> None:
    """Ask for the GPUs of a task on a machine that has some."""
    own = Task.parse(task)
    found = ("CPU:0", "CPU:1", *(f"GPU:{each}" for each in range(gpus)))
    devices = tuple(f"/job:{own.job}/replica:0/task:{own.index}/device:{each}" for each in found)
    _require_gpus(
        spec_of(SPEC.format(**WITH_GPUS), **settings), Membership(Cluster.of(HOSTS), own, ""), devices
    )


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


WITH_ONE_WORKER = {"ps": "tasks = 2", "worker": "tasks = 1"}
MAPPED = """
import ctypes, os, sys
from tfdeploy.runtime.cluster import server

class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("arena", "free", "fast", "mapped", "bytes", *"abcde")]

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallinfo.restype = Counts
for each in sys.argv[1:]:
    getattr(server, each)()
first = libc.mallinfo().arena
libc.free(libc.malloc(20 << 20))  # after that, the C library keeps buffers of this size
before = libc.mallinfo()
libc.malloc(4 << 20)
mapped, arena = libc.mallinfo().mapped - before.mapped, libc.mallinfo().arena
parts = [libc.malloc(1 << 20) for _ in range(4)]
for part in parts:
    libc.free(part)
grown = libc.mallinfo().arena - arena >= 3 << 20
parts = [libc.malloc(1 << 20) for _ in range(60)]
for part in parts:
    libc.free(part)
kept = libc.mallinfo().arena - first >= 50 << 20
print(mapped, grown, kept, os.environ.get(server.SYSTEM_ALLOCATOR))
"""


def _mapped(*arguments: str, **environment: str) -> str:
    """Return how many buffers are mapped alone in a process, and what TensorFlow is told there."""
    own = {key: value for key, value in os.environ.items() if key != server.SYSTEM_ALLOCATOR}
    command = [sys.executable, "-c", MAPPED, *arguments]
    found = subprocess.run(command, env={**own, **environment}, capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux how it keeps memory")
@pytest.mark.full
def test_a_large_buffer_is_mapped_alone_however_large_those_before_were() -> None:
    """So it is returned when it is freed. Smaller ones, as of rows, leave their pages for the next step.

    What the user has set in the environment stays.
    """
    assert _mapped().startswith("0 ")
    at_once = "return_memory_at_once"
    assert _mapped(at_once) == "1 True False true"
    assert _mapped(at_once, MALLOC_MMAP_THRESHOLD_=str(8 << 20)).startswith("0 ")
    assert _mapped(at_once, MALLOC_TRIM_THRESHOLD_=str(1 << 20)) == "1 False False true"
    assert _mapped(at_once, **{server.SYSTEM_ALLOCATOR: "false"}) == "1 True False false"


@pytest.mark.skipif(sys.platform != "linux", reason="asks the C library of Linux how it keeps memory")
def test_what_a_step_has_freed_stays_for_the_next_step() -> None:
    """Otherwise that depends on what was freed before. What the user has set in the environment stays."""
    assert _mapped() == "0 True False None"
    assert _mapped("keep_buffers") == "0 False True None"
    assert _mapped("keep_buffers", MALLOC_TRIM_THRESHOLD_=str(1 << 20)) == "0 False False None"


class _StartedError(Exception):
    pass


@pytest.mark.parametrize(
    ("rule", "told"),
    [("sharded(ps[*])", ["memory", "start False"]), ("balanced(ps[*])", ["buffers", "start False"])],
)
def test_a_server_with_pieces_is_told_before_tensorflow_starts(
    rule: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow reads its setting while it is imported."""
    spec = spec_of(SPEC.format(**WITH_ONE_WORKER) + f"place {{ variables -> {rule} }}\n")
    calls = []

    def start(*, verbose: bool) -> None:
        calls.append(f"start {verbose}")
        raise _StartedError

    monkeypatch.setattr(server, "return_memory_at_once", lambda: calls.append("memory"))
    monkeypatch.setattr(server, "keep_buffers", lambda: calls.append("buffers"))
    monkeypatch.setattr(server, "start_tensorflow", start)
    cluster = Cluster.of({"ps": ["a:1", "a:2"], "worker": ["a:3"]})
    membership = Membership(cluster, Task("ps", 0), spec.sha256)
    with pytest.raises(_StartedError):
        server.serve(spec, membership, print, print)
    assert calls == told


ONE_MACHINE = {"ps": ["a:1", "a:2"], "worker": ["a:3", "a:4", "a:5"]}
TWO_MACHINES = {"ps": ["a:1", "b:1"], "worker": ["a:2", "c:1", "c:2"]}
JOBS = {"ps": "tasks = 2", "worker": "tasks = 3"}


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


@pytest.mark.parametrize(
    ("stale", "lacks", "signal"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_the_wait_for_a_generation_ends_although_tensorflow_would_go_on_to_wait(
    *, stale: bool, lacks: bool, signal: bool
) -> None:
    """A worker that goes before it is reached is no failure of training, and a signal ends the wait."""
    over = threading.Event()
    session = SimpleNamespace(run=lambda _: over.wait())
    compiled = SimpleNamespace(exchange=SimpleNamespace(unstage="unstage"))
    engine: Any = SimpleNamespace(compiled=compiled, session=session, activity=Activity(), lost=None)
    crew: Any = SimpleNamespace(is_stale=lambda: stale, lacks_member=lambda: lacks)
    monitor: Any = SimpleNamespace(lost=lambda: False)
    target = SessionTarget(crew=crew, needs_monitor=monitor)

    def check() -> None:
        if signal:
            raise Interrupted

    try:
        with pytest.raises(Interrupted if signal else Changed) as caught:
            target.reach(engine, check)
    finally:
        over.set()
    assert signal or is_lost_task(cast("Exception", caught.value), engine.lost)
