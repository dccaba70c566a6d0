"""The tasks of a cluster and where they are: no TensorFlow is needed to know that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from tfdeploy.runtime.membership.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsl.diagnostics import Diagnostic

PARAMETER_SERVER = "ps"
_REF = re.compile(r"(?P<job>[A-Za-z_]\w*):(?P<index>\d+)")

GivenBy: TypeAlias = Literal["launch", "spec", "TF_CONFIG"]
"""Who says where the tasks are: the launcher on this machine, `hosts` in the spec, or the environment."""


@frozen(order=True)
class Task:
    """One task of a job."""

    job: str
    index: int

    @property
    def ref(self) -> str:
        """The name that options and messages use: `worker:1`."""
        return f"{self.job}:{self.index}"

    @property
    def tensorflow_name(self) -> str:
        """The task in TensorFlow's own notation."""
        return f"/job:{self.job}/replica:0/task:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """Read `worker:1`. Raises ValueError for anything else."""
        found = _REF.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is not of the form JOB:INDEX, as in worker:1")
        return cls(found["job"], int(found["index"]))


@frozen
class Cluster:
    """Where every task is: `jobs` has the `host:port` of each task of each job, in the spec's order."""

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
        """Return the `host:port` of a task; a KeyError or IndexError if there is no such task."""
        return self.jobs[task.job][task.index]

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
    """What a process knows of its cluster: its own task (None: a client that is no task), and the spec.

    `spec_sha256` is the fingerprint of the spec that all processes of a run must have in common. With
    `listen_everywhere` the task's server may listen at every address if its own leads to none of this
    machine's. `trouble`
    tells why waiting for tasks is of no use any more, if somebody knows: the launcher that started them.
    `launcher` is the process of that; `secret` is what the processes of the run share, if it is needed.
    """

    cluster: Cluster
    task: Task | None
    spec_sha256: str
    given_by: GivenBy = "launch"
    launch_failure: Callable[[], Diagnostic | None] | None = field(default=None, eq=False, repr=False)
    listen_everywhere: bool = False
    launcher: int | None = None
    secret: Secret | None = field(default=None, eq=False, repr=False)

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief's."""
        return self.task == self.cluster.chief

    @property
    def others(self) -> tuple[Task, ...]:
        """Every task but this process's own."""
        return tuple(each for each in self.cluster.tasks if each != self.task)


def chief_job(jobs: Mapping[str, object]) -> str:
    """Return the name of the first job that is no parameter server; of the first if there is no other."""
    return next((job for job in jobs if job != PARAMETER_SERVER), next(iter(jobs)))
