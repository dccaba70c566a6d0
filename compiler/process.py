"""What this process may use: memory, addresses and files, the threads for an op, and Python's collector."""

from __future__ import annotations

import gc
import os
import resource
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from compiler.plan import Plan
from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors.files import out_of_addresses, too_few_files
from dsl.ir.place import PARAMETER_SERVER

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
MEMINFO = Path("/proc/meminfo")


def memory_limit() -> int:
    """Return the most bytes that this process may hold.

    That is the least of the machine's memory with its swap space, the limits of the process's control groups
    (versions 1 and 2) and the limits that `ulimit` sets.
    """
    return min([_of_machine(), *_of_groups(), *_of_process()])


ADDRESSES = 2 << 30
"""The bytes of addresses that TensorFlow reserves for its code and for what it allocates while it starts."""
ADDRESSES_OF_CORE = 512 << 20
"""Those that it reserves for each core: stacks of threads, and the room in which each of them allocates."""


def require_addresses() -> None:
    """Check that the process may reserve the addresses that TensorFlow needs, which else ends the process.

    Raises:
        RunError: `ulimit -v` allows less.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = ADDRESSES + ADDRESSES_OF_CORE * len(os.sched_getaffinity(0))
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise RunError(out_of_addresses(limit, needed))


FILES = 64
"""The files, pipes and sockets that a run has open at once, with some to spare; those of data come on top."""


def require_files() -> None:
    """Check that the process may open the files that TensorFlow needs, which else ends the process.

    Raises:
        RunError: `ulimit -n` allows less.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit < FILES <= most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, most))
    elif limit < FILES:
        raise RunError(too_few_files(limit=limit, needed=FILES))


def _of_machine() -> int:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return physical + (_of_meminfo("SwapTotal") or 0)


def _of_meminfo(wanted: str) -> int | None:
    """Return what the kernel says of the machine's memory under a name, in bytes; None if it says nothing."""
    for line in _text(MEMINFO).splitlines():
        name, _, value = line.partition(":")
        if name == wanted:
            return int(value.split()[0]) * 1024
    return None


def _of_groups() -> Iterator[int]:
    """Yield the limits of the control groups that this process is in, with those above them."""
    for line in _text(MEMBERSHIP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = CGROUPS / "memory" if controllers else CGROUPS
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        inside = root / path.lstrip("/")
        for group in (inside, *inside.parents):  # in a container the path is often of another root
            found = _text(group / name).strip()
            if found.isdecimal():
                yield int(found)
            if group == root:
                break


def _of_process() -> Iterator[int]:
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield soft


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


# --- how many threads of a process may work on one op, if towers or tasks share the cores of a machine ----


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
    longer.

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


def threads_sleep(plan: Plan) -> bool:
    """Whether threads that have nothing to do sleep at once, and do not look for work for a while before.

    The stages of a pipeline on CPUs keep all cores busy, and a thread that looks in vain would take one from
    them.
    """
    return plan.update.schedule is not None and not runs_gpus(plan)


def runs_gpus(plan: Plan) -> bool:
    """Whether the graph of a plan has ops on GPUs."""
    return not plan.emulate and bool(plan.topology.select("gpu"))


# --- python's garbage collector, kept from looking again and again at large structures while they grow ----


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
