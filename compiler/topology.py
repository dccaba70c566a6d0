"""The devices of a spec, and which of them a pattern such as `worker[1].gpu[0..3]` means."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from attrs import evolve, frozen

from compiler.figures import gathered
from dsl import ir
from dsl.ir.place import PARAMETER_SERVER

LOCAL_JOB = "localhost"

Host: TypeAlias = tuple[str | None, int]
"""The process that owns a device: its job (None for this machine) and its task."""


@frozen(cache_hash=True)
class Device:
    """One device.

    Attributes:
        kind: `cpu` or `gpu`.
        index: Its number among the devices of its kind in its process.
        job: The job of its process, or None on this machine.
        task: The number of its process in the job.
        ordinal: Its position in the order of declaration.
    """

    kind: Literal["gpu", "cpu"]
    index: int
    job: str | None = None
    task: int = 0
    ordinal: int = 0

    @cached_property
    def ref(self) -> str:
        """The name that specs, maps and messages use: `gpu[0]`, `worker[1].gpu[0]`."""
        name = f"{self.kind}[{self.index}]"
        return name if self.job is None else f"{self.job}[{self.task}].{name}"

    @property
    def scope(self) -> str:
        """A part of names of ops that are there once for each device: `at_gpu_0`, `at_worker_1_gpu_0`."""
        name = f"{self.kind}_{self.index}"
        return f"at_{name}" if self.job is None else f"at_{self.job}_{self.task}_{name}"

    @property
    def host(self) -> Host:
        """The process that owns the device: job and task."""
        return (self.job, self.task)

    @property
    def tensorflow_name(self) -> str:
        """The full name in TensorFlow's own notation."""
        return (
            f"/job:{self.job or LOCAL_JOB}/replica:0/task:{self.task}/device:{self.kind.upper()}:{self.index}"
        )

    @property
    def emulated_name(self) -> str:
        """The logical CPU of this process that is used instead of the device with `--emulate`."""
        return f"/job:{LOCAL_JOB}/replica:0/task:0/device:CPU:{self.ordinal}"


@frozen
class Topology:
    """All devices of a deployment.

    Attributes:
        devices: The devices in the order of declaration, with the CPUs of a task before its GPUs.
        home: The task whose graph is being made, if each worker has a graph of its own; else None.
        alone: Whether that task has all weights, and shares no variables with others.
    """

    devices: tuple[Device, ...]
    home: Host | None = None
    alone: bool = False

    def select(self, kind: str, job: str | None = None) -> tuple[Device, ...]:
        """Return the devices of a kind, of one job or of every worker, by task and then by index.

        Args:
            kind: `cpu` or `gpu`.
            job: The name of the job; None for all jobs but that of parameter servers.
        """
        here = (each for each in self.devices if each.kind == kind)
        return tuple(
            each for each in here if (each.job != PARAMETER_SERVER if job is None else each.job == job)
        )

    def resolve(self, pattern: ir.DevicePattern) -> tuple[Device, ...]:
        """Return the devices that `pattern` names, in its own order of indices; unknown ones are left out."""
        found = self.select(pattern.kind, pattern.job)
        if pattern.job is not None and pattern.tasks is not None:
            of_task = gathered((each.task, each) for each in found)
            found = tuple(each for task in pattern.tasks for each in of_task.get(task, ()))
        if pattern.indices is None:
            return found
        of_hosts, indices = gathered((each.host, each) for each in found), pattern.indices
        return tuple(
            each for own in of_hosts.values() for index in indices for each in own if each.index == index
        )

    def resolve_set(self, devices: ir.DeviceSet) -> tuple[Device, ...]:
        """Return the devices of a set in the order in which they are used."""
        return tuple(each for pattern in devices.patterns for each in self.resolve(pattern))

    def first_cpu(self, job: str | None = None, task: int = 0) -> Device:
        """Return CPU 0 of a task.

        If no job is named, this is the task whose graph is being made, or else the chief. If a deployment
        has parameter servers only, it is the first of them.

        Args:
            job: The name of the job, or None.
            task: The number of the task, from 0; the first task of the job if there is none of that number.
        """
        if job is None and self.home is not None:
            job, task = self.home
        cpus = self.select("cpu", job) or self.select("cpu", PARAMETER_SERVER)
        return next((each for each in cpus if each.task == task), cpus[0])

    @property
    def chief_cpu(self) -> Device:
        """CPU 0 of the first worker, or of this machine; the same in the graphs of all workers."""
        return evolve(self, home=None).first_cpu()

    @property
    def keeper(self) -> Device:
        """The CPU of what no rule places, and what is no clone's: that of the chief, or of a task alone."""
        return self.first_cpu() if self.alone else self.chief_cpu

    def near(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        """Return the devices that belong to the worker whose graph is being made, or all if none does."""
        own = tuple(each for each in devices if self.home is not None and each.host == self.home)
        return own or tuple(devices)

    @property
    def parameter_servers(self) -> tuple[Device, ...]:
        """CPU 0 of each task of the job `ps`; none for a task that shares no variables."""
        if self.alone:
            return ()
        return tuple(each for each in self.select("cpu", PARAMETER_SERVER) if each.index == 0)


def declare(devices: ir.Devices, visible_gpus: int, members: Collection[int] | None = None) -> Topology:
    """Return the devices of a `devices` block.

    Args:
        devices: The block.
        visible_gpus: The number of GPUs of this machine, which is used if the block gives no number.
        members: The tasks that take part, if these come and go; None for all.
    """
    listed: list[Device] = []

    def add(job: str | None, task: int, cpus: int, gpus: int) -> None:
        for kind, count in (("cpu", cpus), ("gpu", gpus)):
            for index in range(count):
                listed.append(Device("cpu" if kind == "cpu" else "gpu", index, job, task, len(listed)))

    for job in devices.jobs:
        for task in range(job.tasks) if members is None else members:
            add(job.name, task, max(job.cpu, 1), job.gpu)
    if not devices.jobs:
        said_nothing = devices.gpu is None and devices.cpu is None
        gpus = visible_gpus if said_nothing else devices.gpu or 0
        add(None, 0, max(devices.cpu or 1, 1), gpus)
    return Topology(tuple(listed))
