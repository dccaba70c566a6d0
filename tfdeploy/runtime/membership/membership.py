"""Which cluster a process belongs to, and as what: from the spec, the command line and the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from attrs import evolve

from compiler.compatibility import changing_job, replication_of
from dsl import ir
from dsl.diagnostics import RunError, SpecError
from dsl.errors import cluster as errors
from dsl.ir.place import PARAMETER_SERVER, split_address
from grammar.unparse import unparse
from tfdeploy.runtime.membership.addresses import (
    VARIABLE,
    Cluster,
    Membership,
    Task,
    chief_job,
    read_tf_config,
    tasks_of,
)
from tfdeploy.runtime.membership.meeting import Address, Folder, Meeting, cluster_of, meet
from tfdeploy.runtime.membership.ranks import Rank, rank_of
from tfdeploy.runtime.membership.secret import VARIABLE as SECRET
from tfdeploy.runtime.membership.secret import secret_of
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.effective import with_paths

LAUNCHER = "TFDEPLOY_LAUNCHER"
"""The environment variable with the number of the launcher's process."""

GPUS = "CUDA_VISIBLE_DEVICES"
"""The environment variable that limits a process to some of its machine's GPUs."""


def find_membership(
    spec: ir.Spec, environment: Mapping[str, str], task: Task | None = None
) -> Membership | None:
    """Return the part of this process in the spec's cluster.

    Args:
        environment: The environment variables. TF_CONFIG precedes `hosts` in the spec.
        task: The task of this process; by default the one that TF_CONFIG names, or that has the number which
            Slurm, MPI or torchrun has given the process.

    Returns:
        The membership; None if the addresses of the tasks are not known.

    Raises:
        SpecError: If there is no such task, or `task` is given and the addresses are not known.
        RunError: If TF_CONFIG does not fit the spec or `task`.
    """
    given = _environment(spec, environment)
    cluster, named = given or (hosts_of(spec), None)
    if named is not None and task not in {None, named}:
        reason = f"says that this is `{named.ref}`, and `--task` says `{task.ref if task else ''}`"
        raise RunError(errors.bad_tf_config(reason=reason))
    own = task or named
    if own is None and given is None and cluster is not None:
        rank = rank_of(environment)
        own = None if rank is None else _task_of(spec, rank)
    if own is not None:
        _require_task(spec, own)
    if cluster is None:
        if own is not None:
            job = next(each for each in spec.devices.jobs if not each.hosts)
            raise SpecError([errors.no_addresses(job.span, job=job.name)])
        return None
    return Membership(cluster, own, fingerprint(spec), "spec" if given is None else "TF_CONFIG")


def meet_others(
    spec: ir.Spec,
    environment: Mapping[str, str],
    task: Task | None,
    join: str | None,
    say: Callable[[str], None],
    *,
    trains: bool = False,
) -> tuple[Membership, dict[str, str]] | None:
    """Find the tasks of a spec at a place where all of them meet, and wait for them.

    Args:
        environment: The environment variables, in which a cluster manager may have said which of several
            processes this is.
        task: The task of this process; None for that of its number, or else for one that is free.
        join: The folder, or the address `host:port`, where the tasks meet; None for a folder beside the run
            directory, if the environment says that there are others.
        say: Called with a line about who is waited for.
        trains: Whether this process can only be a task that trains: a worker with a graph of its own, or the
            chief of one graph.

    Returns:
        The membership, and the environment variables that this process and those that it starts need. None if
        nothing says that tasks are to meet.

    Raises:
        SpecError: If there is no such task, or another number of processes than of tasks.
        RunError: If the place cannot be used, or tasks are missing for too long.
    """
    rank = rank_of(environment) if spec.devices.jobs else None
    if join is None and rank is None:
        return None
    if task is not None:
        _require_task(spec, task)
    own = task if task is not None or rank is None else _task_of(spec, rank)
    wanted = tasks_of(spec) if own is None else (own,)
    if trains:
        chief = Task(chief_job({job.name: job for job in spec.devices.jobs}), 0)
        wanted = tuple(each for each in wanted if each == chief or not is_server(spec, each))
        if own is not None and not wanted:
            _refuse(spec, own)
    place, needed = _meeting_place(spec, environment, rank, join)
    membership, beside = meet(
        spec, place, fingerprint(spec), wanted=wanted, host=None if rank is None else rank.host, say=say
    )
    gpus = gpus_of(spec, membership.own, environment.get(GPUS), beside)
    if gpus is not None:
        needed[GPUS] = gpus
    return membership, needed


def _meeting_place(
    spec: ir.Spec, environment: Mapping[str, str], rank: Rank | None, join: str | None
) -> tuple[Meeting, dict[str, str]]:
    """Return where tasks meet, and where the secret of the run is: in the folder, if they meet in one."""
    at = join or (rank.meets_at if rank is not None else None)
    if at is not None and "/" not in at and ":" in at:
        try:
            split_address(at)
        except ValueError as fault:
            raise RunError(errors.no_meeting(place=at, reason=str(fault))) from None
        return Address(at, secret_of(environment)), {}
    own = RunDirectory.of(spec).path
    start = f"-{sha256(rank.run.encode()).hexdigest()[:12]}" if rank is not None else ""
    place = Folder(own.with_name(f"{_beside(own)}{start}") if at is None else Path(at))
    return place, {} if environment.get(SECRET) else {SECRET: str(place.secret)}


def _beside(directory: Path) -> str:
    """Return how the names of folders begin where the tasks of a run meet that has this directory."""
    return f".{directory.name}.meeting"


def who_met(spec: ir.Spec) -> Membership | None:
    """Return the cluster of the tasks that have met beside the run directory; None if not all are there."""
    own, sha256_of_spec = RunDirectory.of(spec).path, fingerprint(spec)
    for folder in own.parent.glob(f"{_beside(own)}*"):
        there = Folder(folder).present()
        if all(each.ref in there for each in tasks_of(spec)):
            return Membership(cluster_of(spec, there), None, sha256_of_spec, "meeting")
    return None


def _task_of(spec: ir.Spec, rank: Rank) -> Task:
    """Return the task with the number of a process; raises SpecError if there are more or fewer tasks."""
    tasks = tasks_of(spec)
    if rank.size != len(tasks):
        job = spec.devices.jobs[-1]
        counts = {
            "size": rank.size,
            "tasks": len(tasks),
            "fitting": max(rank.size - len(tasks) + job.tasks, 1),
        }
        raise SpecError([errors.other_number(job.span, manager=rank.manager, job=job.name, **counts)])
    return tasks[rank.number]


def gpus_of(
    spec: ir.Spec, task: Task, visible: str | None, beside: Sequence[Task] | None = None
) -> str | None:
    """Return which of this machine's GPUs belong to a task, in the form of CUDA_VISIBLE_DEVICES.

    Tasks get GPUs one after the other, in the order of the jobs.

    Args:
        visible: The GPUs to which the environment limits this process; None for all.
        beside: The tasks on this machine, in the order of the spec; None for all.

    Returns:
        The list; None if the spec itself lists GPUs, or gives the task none, or if the process sees no more
        than those of its task.
    """
    counts = {job.name: job.gpu for job in spec.devices.jobs}
    own = counts[task.job]
    names = visible.split(",") if visible else None
    if spec.devices.visible is not None or own == 0 or (beside is not None and names and len(names) <= own):
        return None
    there = tasks_of(spec) if beside is None else beside
    first = sum(counts[each.job] for each in there[: there.index(task)])
    if names is None:
        names = [str(each) for each in range(first + own)]
    return ",".join(names[first : first + own])


def with_run_secret(membership: Membership, environment: Mapping[str, str]) -> Membership:
    """Add the secret of the run, which must be had, and the launcher to the membership of a process."""
    launcher = environment.get(LAUNCHER, "")
    return evolve(
        membership,
        secret=secret_of(environment),
        launcher=int(launcher) if launcher.isascii() and launcher.isdigit() else None,
    )


def _environment(spec: ir.Spec, environment: Mapping[str, str]) -> tuple[Cluster, Task | None] | None:
    text = environment.get(VARIABLE, "").strip()
    return read_tf_config(text, spec.devices.jobs) if text and spec.devices.jobs else None


def knows_addresses(spec: ir.Spec, environment: Mapping[str, str]) -> bool:
    """Whether the spec or TF_CONFIG says where all tasks are; raises RunError for an unusable TF_CONFIG."""
    return _environment(spec, environment) is not None or hosts_of(spec) is not None


def hosts_of(spec: ir.Spec) -> Cluster | None:
    """Return the cluster that `hosts` in the spec describe; None if a job has no hosts."""
    jobs = spec.devices.jobs
    if not jobs or not all(job.hosts for job in jobs):
        return None
    return Cluster.of({job.name: job.hosts for job in jobs})


def _require_task(spec: ir.Spec, task: Task) -> None:
    tasks = tasks_of(spec)
    if task not in tasks:
        span = next((job.span for job in spec.devices.jobs if job.name == task.job), spec.devices.span)
        raise SpecError([errors.no_such_task(span, ref=task.ref, refs=[each.ref for each in tasks])])


def is_server(spec: ir.Spec, task: Task) -> bool:
    """Whether a task only serves: every task in one graph, else parameter servers alone."""
    return replication_of(spec) == "in_graph" or task.job == PARAMETER_SERVER


def may_be_chief(spec: ir.Spec, task: Task) -> bool:
    """Whether a task is the chief, or one of those that come and go, of which each may become it."""
    changing = changing_job(spec)
    first = Task(chief_job({job.name: job for job in spec.devices.jobs}), 0)
    return task == first or (changing is not None and changing.name == task.job)


def require_server(spec: ir.Spec, task: Task) -> None:
    """Raise SpecError if `task` is not run by `tfdeploy serve`."""
    if not is_server(spec, task):
        _refuse(spec, task)


def require_trainer(spec: ir.Spec, membership: Membership) -> None:
    """Raise SpecError if this process does not train.

    In one graph the client trains, which is no task. If workers have graphs of their own, each one trains.
    """
    task, jobs = membership.task, spec.devices.jobs
    if task is not None and is_server(spec, task):
        _refuse(spec, task)
    if task is None and replication_of(spec) == "between_graph":
        refs = [each.ref for each in membership.cluster.tasks if not is_server(spec, each)]
        raise SpecError([errors.which_task(jobs[0].span if jobs else None, refs=refs)])


def _refuse(spec: ir.Spec, task: Task) -> None:
    replication, serves = replication_of(spec), is_server(spec, task)
    words = {"ref": task.ref, "replication": replication}
    in_graph = replication == "in_graph"
    raise SpecError(
        [errors.not_for_this_command(spec.devices.span, **words, serves=serves, in_graph=in_graph)]
    )


def fingerprint(spec: ir.Spec) -> str:
    """Return the SHA-256 of the text that is compared of a spec, in hexadecimal digits."""
    return sha256(compared_text(spec).encode(errors="surrogateescape")).hexdigest()


def compared_text(spec: ir.Spec) -> str:
    """Return the spec's text with all defaults filled in, which must be the same for all tasks.

    Included files and overrides count. The folders of data files and the run directory do not count, because
    they may differ between machines.
    """
    return unparse(with_paths(spec, os.path.basename, None))
