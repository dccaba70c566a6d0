"""The status of each task of a cluster, also of one that a launcher has started on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from dsl.addresses import split_address
from dsl.diagnostics import SpecError
from dsl.errors import cluster as errors
from dsl.files.typed_json import BadRecord, Count, read_record, to_json
from tfdeploy.runtime.cluster.identity import Answer, NoAnswer, ask
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.membership.membership import find_membership
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.show.reporting import duration
from tfdeploy.runtime.start_tensorflow import start_tensorflow
from tfdeploy.runtime.stop import cleanup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl import ir

PATIENCE = 3.0
AT_ONCE = 32


@frozen
class TaskStatus:
    """The status of a task.

    Attributes:
        task: The task.
        address: Its `host:port`.
        well: Whether it is running, and runs the same spec.
        words: The status in words.
    """

    task: Task
    address: str
    well: bool
    words: str


@frozen
class ClusterRecord:
    """The record of `cluster.json`.

    Attributes:
        process: The process that has started the tasks.
        spec_sha256: The fingerprint of the spec.
        jobs: The `host:port` of each task of each job.

    Raises:
        ValueError: If there are no tasks, or a name or an address is not valid.
    """

    process: Count
    spec_sha256: str
    jobs: Mapping[str, tuple[str, ...]]

    def __attrs_post_init__(self) -> None:
        if not any(self.jobs.values()):
            raise ValueError("a cluster without tasks")
        for job, addresses in self.jobs.items():
            for index, address in enumerate(addresses):
                Task.parse(f"{job}:{index}")
                split_address(address)


@contextmanager
def cluster_record(directory: RunDirectory, membership: Membership | None) -> Iterator[None]:
    """Keep the addresses of tasks that a launcher has started in the run directory, during the block.

    The process must have the lock of the directory, so that a second run does not replace the file.

    Args:
        directory: The run directory.
        membership: The membership of this process. Without a launcher in it, or without a cluster, nothing is
            kept.
    """
    if membership is None or membership.launcher is None:
        yield
        return
    found = ClusterRecord(membership.launcher, membership.spec_sha256, membership.cluster.jobs)
    write_atomically(directory.cluster, to_json(found) + "\n")
    with cleanup(lambda: directory.cluster.unlink(missing_ok=True)):
        yield


def _read_record(spec: ir.Spec) -> Membership | None:
    """Return the cluster that a launcher has started for the spec; None if there is none."""
    try:
        found = read_record(RunDirectory.of(spec).cluster, ClusterRecord)
        os.kill(found.process, 0)
    except (OSError, BadRecord, OverflowError):
        return None  # there is no file, or it is damaged, or a launcher that was killed has left it
    return Membership(Cluster(found.jobs), None, found.spec_sha256)


def cluster_status(
    spec: ir.Spec, environment: Mapping[str, str], *, verbose: bool = False
) -> list[TaskStatus]:
    """Return the status of every task of the spec's cluster, in order.

    Args:
        spec: The spec.
        environment: The environment variables, of which TF_CONFIG is read.
        verbose: Whether TensorFlow's own messages are shown.

    Raises:
        SpecError: If the addresses of the tasks are not known.
        RunError: If TF_CONFIG does not fit the spec.
    """
    known = find_membership(spec, environment) or _read_record(spec)
    if known is None:
        raise SpecError([errors.not_running(spec.devices.span)])
    start_tensorflow(verbose=verbose)
    tasks = known.cluster.tasks
    with ThreadPoolExecutor(min(AT_ONCE, len(tasks)), "look") as pool:
        return list(pool.map(lambda each: _status(known, each), tasks))


def _status(membership: Membership, task: Task) -> TaskStatus:
    address = membership.cluster.address(task)
    return TaskStatus(task, address, *_found(membership, task, ask(address, PATIENCE)))


def _found(membership: Membership, task: Task, answer: Answer | NoAnswer) -> tuple[bool, str]:
    """Return whether a task answers with the same spec, and what it does instead or for how long."""
    if isinstance(answer, NoAnswer):
        return False, answer.words
    if answer.task != task:
        return False, f"{answer.task.ref} answers there"
    identity = answer.identity
    if identity is None:
        return False, "starting, or no server of tfdeploy"
    up = duration(max(0.0, time.time() - identity.started))
    same = identity.spec_sha256 == membership.spec_sha256
    other = "" if same else ", with another spec"
    return same, f"up for {up}, process {identity.process} on {identity.host}{other}"
