"""How many threads of a process may work on one op, if towers or tasks share the cores of a machine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from compiler.plan import Plan
from dsl import ir
from dsl.ir.place import PARAMETER_SERVER


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def task_threads(devices: ir.Devices, job: ir.Job, on_machine: Iterable[str | None]) -> int:
    """Return how many threads of a task's server may work on one op; 0 leaves that to TensorFlow.

    The parameter servers of a machine work at the same time, and so do its workers. Each of them gets its
    share of the cores.
    """
    if devices.intra_op_threads is not None:
        return devices.intra_op_threads
    serves = job.name == PARAMETER_SERVER
    alike = sum((name == PARAMETER_SERVER) == serves for name in on_machine)
    if alike == 1 or job.gpu or os.environ.get("TF_NUM_INTRAOP_THREADS"):
        return 0
    return max(1, cores() // alike)


def threads_on_one_machine(devices: ir.Devices) -> dict[tuple[str | None, int], int]:
    """Return what `task_threads` says of each task, by its job and number, if one machine has all tasks."""
    on_machine = [job.name for job in devices.jobs for _ in range(job.tasks)]
    threads = {job.name: task_threads(devices, job, on_machine) for job in devices.jobs}
    return {(job.name, task): threads[job.name] for job in devices.jobs for task in range(job.tasks)}


def on_one_machine(jobs: Sequence[ir.Job]) -> bool:
    """Whether all tasks are on one machine: the launcher's if they have no addresses, else that of all."""
    return len({host.rpartition(":")[0] for job in jobs for host in job.hosts}) <= 1


def intra_op_threads(plan: Plan) -> int:
    """Return how many threads of a process may work on one op; 0 leaves that to TensorFlow.

    Towers on CPUs run at the same time and keep all cores busy. If each of their ops were split for all cores
    as well, the parts would wait for each other: with 4 towers of LeNet on 2 cores, a step takes a fifth
    longer. TensorFlow has one pool for a process, which its first session makes.

    If most of a step is an op that goes through a whole table, that op runs when the towers have ended, and
    gets all cores.
    """
    if plan.spec.devices.intra_op_threads is not None:
        return plan.spec.devices.intra_op_threads
    towers = Counter(None if plan.emulate else tower.device.host for tower in plan.towers)
    busiest = max(towers.values())
    if runs_gpus(plan) or busiest == 1 or plan.tables_dominate or os.environ.get("TF_NUM_INTRAOP_THREADS"):
        return 0
    return max(1, cores() // busiest)


def runs_gpus(plan: Plan) -> bool:
    """Whether the graph of a plan has ops on GPUs."""
    return not plan.emulate and bool(plan.topology.select("gpu"))
