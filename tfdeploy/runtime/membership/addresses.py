"""The tasks of a cluster and their addresses, without TensorFlow, and as TF_CONFIG says them.

By that environment variable, cluster managers give each process the addresses of all tasks. Kubeflow's
training operator sets it in every pod: `{"cluster": {job: ["host:port", ...]}, "task": {"type": job,
"index": number}}`. It calls the first worker `chief` or `master`, as a job of one task beside `worker`.
The value of the variable is never shown, because a secret may have been put there by mistake.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import cluster as errors
from dsl.errors.wording import MOST_LISTED, counted, listed
from dsl.files.typed_json import BadRecord, Digits, parse_record
from dsl.ir.place import PARAMETER_SERVER, split_address
from tfdeploy.runtime.membership.secret import Secret

_REF = re.compile(r"(?P<job>[A-Za-z_]\w*):(?P<index>\d+)")

GivenBy: TypeAlias = Literal["launch", "spec", "TF_CONFIG", "meeting"]
"""What gives the addresses of the tasks: the launcher, `hosts` in the spec, the environment, or the tasks."""


@frozen(order=True)
class Task:
    """One task of a job."""

    job: str
    index: int

    @property
    def ref(self) -> str:
        """The name of the task in options and messages, such as `worker:1`."""
        return f"{self.job}:{self.index}"

    @property
    def tensorflow_name(self) -> str:
        """The task in TensorFlow's own notation."""
        return f"/job:{self.job}/replica:0/task:{self.index}"

    @classmethod
    def of(cls, host: tuple[str | None, int]) -> Task:
        """Return the task of a host of a topology, which has a job."""
        return cls(str(host[0]), host[1])

    @classmethod
    def parse(cls, text: str) -> Task:
        """Read a task of the form `worker:1`; raises ValueError for any other text."""
        found = _REF.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is not of the form JOB:INDEX, as in worker:1")
        return cls(found["job"], int(found["index"]))


@frozen
class Cluster:
    """The addresses of all tasks."""

    jobs: Mapping[str, tuple[str, ...]]  # the `host:port` of each task of each job, in the order of the spec

    @classmethod
    def of(cls, jobs: Mapping[str, Sequence[str]]) -> Cluster:
        """Make a cluster of lists of addresses."""
        return cls({job: tuple(addresses) for job, addresses in jobs.items()})

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Every task, job by job."""
        return tuple(Task(job, index) for job, each in self.jobs.items() for index in range(len(each)))

    def __contains__(self, task: object) -> bool:
        """Whether the cluster has this task."""
        return isinstance(task, Task) and 0 <= task.index < len(self.jobs.get(task.job, ()))

    def address(self, task: Task) -> str:
        """Return the `host:port` of a task; raises KeyError or IndexError if there is no such task."""
        return self.jobs[task.job][task.index]

    def beside(self, task: Task) -> tuple[Task, ...]:
        """Return the tasks on the machine of a task, also itself: those whose addresses have its host."""
        host = _host(self.address(task))
        return tuple(each for each in self.tasks if _host(self.address(each)) == host)

    @property
    def chief(self) -> Task:
        """The first task of the first job that is no parameter server; of `ps` if there is no other."""
        return Task(chief_job(self.jobs), 0)

    def to_tensorflow(self) -> Any:
        """Return the `tf.train.ClusterSpec`."""
        import tensorflow as tf

        return tf.train.ClusterSpec({job: list(addresses) for job, addresses in self.jobs.items()})


@frozen
class Membership:
    """The part of a process in a cluster."""

    cluster: Cluster
    task: Task | None  # the task of this process; None for a client, which is no task
    spec_sha256: str  # the fingerprint of the spec, which must be the same for all processes of a run
    given_by: GivenBy = "launch"
    # Returns why waiting for tasks cannot help any more, if the launcher has given up one.
    launch_failure: Callable[[], Diagnostic | None] = field(default=lambda: None, eq=False, repr=False)
    # Whether the server of this task may listen at every address, if its own host leads to none of this
    # machine's addresses.
    listen_everywhere: bool = False
    launcher: int | None = None  # the number of the launcher's process; None if there is none
    # The secret that the processes of the run share; None if it is not needed.
    secret: Secret | None = field(default=None, eq=False, repr=False)
    # The tasks that take part now, if tasks come and go; None for all.
    present: tuple[Task, ...] | None = None

    @property
    def own(self) -> Task:
        """The task of this process, which is no client."""
        assert self.task is not None
        return self.task

    @property
    def others(self) -> tuple[Task, ...]:
        """Every task that takes part but this process's own."""
        tasks = self.cluster.tasks if self.present is None else self.present
        return tuple(each for each in tasks if each != self.task)


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def family_of(host: str) -> socket.AddressFamily:
    """Return the kind of sockets that listen at a host, which has no brackets.

    A name that leads to addresses of both kinds counts as one of IPv4, also if nothing is known of it.
    """
    with suppress(OSError, UnicodeError):
        kinds = {entry[0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
        return socket.AF_INET6 if kinds == {socket.AF_INET6} else socket.AF_INET
    return socket.AF_INET


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that has an address, which a server of this user can use nevertheless."""
    taken = socket.socket(family_of(host))
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
    except OSError:
        taken.close()
        raise
    return taken


def tasks_of(spec: ir.Spec) -> tuple[Task, ...]:
    """Return all tasks of a spec, in its order."""
    return tuple(Task(job.name, index) for job in spec.devices.jobs for index in range(job.tasks))


def chief_job(jobs: Mapping[str, object]) -> str:
    """Return the name of the first job that is no parameter server; of the first if there is no other."""
    return next((job for job in jobs if job != PARAMETER_SERVER), next(iter(jobs)))


VARIABLE = "TF_CONFIG"
CHIEFS = ("chief", "master")
FORM = '{"cluster": {"ps": ["host:port", ...], "worker": [...]}, "task": {"type": "worker", "index": 0}}'


@frozen
class _TaskEntry:
    """The `task` of TF_CONFIG."""

    type: str | None = None
    index: Digits | None = None


@frozen
class _Config:
    """The record that TF_CONFIG holds, as far as it is read."""

    cluster: Mapping[str, tuple[str, ...]] | None = None
    task: _TaskEntry | None = None


def read_tf_config(text: str, jobs: tuple[ir.Job, ...]) -> tuple[Cluster, Task | None] | None:
    """Read the text of TF_CONFIG for a spec.

    Returns:
        The cluster, with the names of jobs in the spec, and the task of this process if it is one; None if no
        cluster is named.

    Raises:
        RunError: If it does not have the right form, or its jobs and tasks are not those of the spec.
    """
    found = _read(text)
    task = _task(found.task)
    addresses = {name: list(each) for name, each in (found.cluster or {}).items() if each}
    if not addresses:
        if task is not None:
            raise _bad("names a task and has no `cluster`", advice=f"it is of the form {FORM}")
        return None
    names = [job.name for job in jobs]
    chief = next((each for each in CHIEFS if each in addresses and each not in names), None)
    if chief is not None:
        first = chief_job(dict.fromkeys(names))
        addresses[first] = addresses.pop(chief) + addresses.get(first, [])
        task = _moved(task, chief, first)
    _require_jobs(addresses, jobs)
    _require_addresses(addresses)
    cluster = Cluster.of({name: addresses[name] for name in names})
    if task is not None and task not in cluster:
        known = listed([each.ref for each in cluster.tasks][:MOST_LISTED])
        raise _bad("names a task that the cluster does not have", f"it has {known}")
    return cluster, task


def to_tf_config(cluster: Cluster, task: Task | None) -> str:
    """Return the text of TF_CONFIG for a task, or for a client, which is no task."""
    config: dict[str, Any] = {"cluster": {job: list(each) for job, each in cluster.jobs.items()}}
    if task is not None:
        config["task"] = {"type": task.job, "index": task.index}
    return json.dumps(config)


def _bad(reason: str, *notes: str, advice: str | None = None) -> RunError:
    return RunError(errors.bad_tf_config(reason=reason, notes=notes, advice=advice))


def _read(text: str) -> _Config:
    try:
        return parse_record(text, _Config)
    except BadRecord as fault:
        raise _bad(str(fault), advice=f"it is of the form {FORM}") from None


def _task(written: _TaskEntry | None) -> Task | None:
    if written is None or written == _TaskEntry():
        return None
    if written.type is None:
        raise _bad("has a `task` without a `type`", advice=f"it is of the form {FORM}")
    return Task(written.type, written.index or 0)


def _moved(task: Task | None, chief: str, first: str) -> Task | None:
    """Return the task with its number in the spec, where the chief is the first task of its job."""
    if task is None or task.job not in {chief, first}:
        return task
    return Task(first, task.index if task.job == chief else task.index + 1)


def _require_jobs(addresses: Mapping[str, list[str]], jobs: tuple[ir.Job, ...]) -> None:
    """Raise RunError if the jobs are not those of the spec, or have other numbers of tasks."""
    declared = {job.name: job for job in jobs}
    strange = [name for name in addresses if name not in declared]
    if strange:
        advice = "parameter servers are the job `ps`; evaluations are the chief's, and need no job"
        raise _bad(
            f"has the jobs {listed(strange)}, which the spec does not",
            f"the spec has {listed(declared)}",
            advice=advice,
        )
    for name, job in declared.items():
        there = len(addresses.get(name, ()))
        if there != job.tasks:
            said = f"{there} {'address' if there == 1 else 'addresses'}"
            raise _bad(
                f"has {said} for the job `{name}`, of which the spec has {counted(job.tasks, 'task')}",
                advice=f"change the replicas, or the spec: `--set devices.{name}.tasks={max(there, 1)}`",
            )


def _require_addresses(addresses: Mapping[str, list[str]]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for job, each in addresses.items():
        for index, address in enumerate(each):
            try:
                parts = split_address(address)
            except ValueError as error:
                raise _bad(f"has no address for `{job}:{index}`: {error}") from None
            if parts in taken:
                raise _bad(f"has one address for `{taken[parts]}` and `{job}:{index}`")
            taken[parts] = f"{job}:{index}"
