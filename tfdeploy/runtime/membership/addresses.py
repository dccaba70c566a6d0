"""The tasks of a cluster and their addresses, without TensorFlow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from dsl.ir.place import PARAMETER_SERVER
from tfdeploy.runtime.membership.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsl.diagnostics import Diagnostic

_REF = re.compile(r"(?P<job>[A-Za-z_]\w*):(?P<index>\d+)")

GivenBy: TypeAlias = Literal["launch", "spec", "TF_CONFIG"]
"""What gives the addresses of the tasks: the launcher, `hosts` in the spec, or the environment."""


@frozen(order=True)
class Task:
    """One task of a job.

    Attributes:
        job: The name of the job.
        index: The number of the task in its job, from 0.
    """

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
    """The addresses of all tasks.

    Attributes:
        jobs: The `host:port` of each task of each job, in the order of the spec.
    """

    jobs: Mapping[str, tuple[str, ...]]

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
    """The part of a process in a cluster.

    Attributes:
        cluster: The addresses of all tasks.
        task: The task of this process; None for a client, which is no task.
        spec_sha256: The fingerprint of the spec, which must be the same for all processes of a run.
        given_by: What gives the addresses.
        launch_failure: Returns why waiting for tasks cannot help any more, if the launcher has given up one.
        listen_everywhere: Whether the server of this task may listen at every address, if its own host leads
            to none of this machine's addresses.
        launcher: The number of the launcher's process; None if there is none.
        secret: The secret that the processes of the run share; None if it is not needed.
    """

    cluster: Cluster
    task: Task | None
    spec_sha256: str
    given_by: GivenBy = "launch"
    launch_failure: Callable[[], Diagnostic | None] = field(default=lambda: None, eq=False, repr=False)
    listen_everywhere: bool = False
    launcher: int | None = None
    secret: Secret | None = field(default=None, eq=False, repr=False)

    @property
    def own(self) -> Task:
        """The task of this process, which is no client."""
        assert self.task is not None
        return self.task

    @property
    def others(self) -> tuple[Task, ...]:
        """Every task but this process's own."""
        return tuple(each for each in self.cluster.tasks if each != self.task)


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def chief_job(jobs: Mapping[str, object]) -> str:
    """Return the name of the first job that is no parameter server; of the first if there is no other."""
    return next((job for job in jobs if job != PARAMETER_SERVER), next(iter(jobs)))
