"""The thread pool of a process: a worker makes it before anything else does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import forked
from tests.folders import ROOT
from tests.runtime.tasks import SPEC
from tests.support import spec_of
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.plans import RunOptions
from tfdeploy.runtime.stop import StopSignals
from tfdeploy.runtime.train import run

CLUSTER = Cluster.of({"ps": ["a:1"], "worker": ["a:2", "a:3"]})
JOBS = {"ps": "tasks = 1", "worker": "tasks = 2"}

COUNTING = """
import os
import tensorflow as tf
from tests.runtime.cluster.test_thread_pool import CLUSTER, JOBS
from tests.runtime.tasks import SPEC
from tests.support import spec_of
from tfdeploy.runtime.cluster.choose_target import make_thread_pool
from tfdeploy.runtime.membership.addresses import Membership, Task

os.sched_getaffinity = lambda _: set(range(10))
threads = lambda: len(os.listdir("/proc/self/task"))
counts = [threads()]
make_thread_pool(spec_of(SPEC.format(**JOBS)), Membership(CLUSTER, Task("worker", 1), ""))
counts.append(threads())
config = tf.compat.v1.ConfigProto(
    intra_op_parallelism_threads=20, inter_op_parallelism_threads=1, use_per_session_threads=True
)
tf.compat.v1.Session(graph=tf.Graph(), config=config)
counts.append(threads())
print(*(after - before for before, after in zip(counts, counts[1:])))
"""


def test_the_pool_has_the_share_of_a_task_and_no_later_session_makes_another() -> None:
    """Of ten cores each of two workers has five, whatever a session asks for that comes after."""
    done = forked.run([sys.executable, "-c", COUNTING], cwd=ROOT, text=True)
    assert not done.returncode, done.stderr
    first, later = map(int, done.stdout.split())
    assert first in {5, 6}  # TensorFlow has one more that is for no ops
    assert later == 0


class Made(Exception):  # noqa: N818
    """Is raised where the pool would be made."""


@pytest.mark.parametrize("task", ["worker:0", "worker:1"])
def test_a_worker_makes_the_pool_before_it_opens_its_data(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chief and another worker: reading examples makes sessions, and the first one makes the pool."""
    spec = spec_of(SPEC.format(**JOBS), update__mode="async", train__directory=f'"{tmp_path / "run"}"')

    def made(*_: object) -> None:
        raise Made

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the data was opened first")

    monkeypatch.setattr(run, "make_thread_pool", made)
    monkeypatch.setattr(run, "open_stream", opened)
    options = RunOptions(membership=Membership(CLUSTER, Task.parse(task), ""))
    with StopSignals(own_process=False) as stop, pytest.raises(Made):
        run.run_spec(spec, options, stop)
