"""Which cluster a process belongs to, and as what: from the spec, the command line and the environment."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

from attrs import evolve

from compiler.compatibility import replication_of
from dsl.diagnostics import RunError, SpecError
from dsl.errors import cluster as errors
from dsl.ir.place import PARAMETER_SERVER
from grammar.unparse import unparse
from tfdeploy.runtime.membership.addresses import (
    VARIABLE,
    Cluster,
    Membership,
    Task,
    TfConfig,
    read_tf_config,
)
from tfdeploy.runtime.membership.secret import secret_of
from tfdeploy.runtime.records.effective import with_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl import ir


LAUNCHER = "TFDEPLOY_LAUNCHER"
"""The environment variable with the number of the launcher's process."""


def find_membership(
    spec: ir.Spec, environment: Mapping[str, str], task: Task | None = None
) -> Membership | None:
    """Return the part of this process in the spec's cluster.

    Args:
        spec: The spec.
        environment: The environment variables. TF_CONFIG precedes `hosts` in the spec.
        task: The task of this process; by default the one that TF_CONFIG names.

    Returns:
        The membership; None if the addresses of the tasks are not known.

    Raises:
        SpecError: If there is no such task, or `task` is given and the addresses are not known.
        RunError: If TF_CONFIG does not fit the spec or `task`.
    """
    given = _environment(spec, environment)
    cluster = given.cluster if given is not None else hosts_of(spec)
    if given is not None and given.task is not None and task not in {None, given.task}:
        reason = f"says that this is `{given.task.ref}`, and `--task` says `{task.ref if task else ''}`"
        raise RunError(errors.bad_tf_config(reason=reason))
    own = task if task is not None else given.task if given is not None else None
    if own is not None:
        _require_task(spec, own)
    if cluster is None:
        if own is not None:
            job = next(each for each in spec.devices.jobs if not each.hosts)
            raise SpecError([errors.no_addresses(job.span, job=job.name)])
        return None
    return Membership(cluster, own, fingerprint(spec), "spec" if given is None else "TF_CONFIG")


def with_run_secret(membership: Membership, environment: Mapping[str, str]) -> Membership:
    """Add the secret of the run, and the launcher, to the membership of a process.

    Raises:
        RunError: If the secret can be neither read nor made.
    """
    launcher = environment.get(LAUNCHER, "")
    return evolve(
        membership,
        secret=secret_of(environment),
        launcher=int(launcher) if launcher.isascii() and launcher.isdigit() else None,
    )


def _environment(spec: ir.Spec, environment: Mapping[str, str]) -> TfConfig | None:
    text = environment.get(VARIABLE, "").strip()
    return read_tf_config(text, spec.devices.jobs) if text and spec.devices.jobs else None


def hosts_of(spec: ir.Spec) -> Cluster | None:
    """Return the cluster that `hosts` in the spec describe; None if a job has no hosts."""
    jobs = spec.devices.jobs
    if not jobs or not all(job.hosts for job in jobs):
        return None
    return Cluster.of({job.name: job.hosts for job in jobs})


def _require_task(spec: ir.Spec, task: Task) -> None:
    jobs = {job.name: job for job in spec.devices.jobs}
    if task.job not in jobs or task.index >= jobs[task.job].tasks:
        refs = [Task(job.name, index).ref for job in jobs.values() for index in range(job.tasks)]
        span = jobs[task.job].span if task.job in jobs else spec.devices.span
        raise SpecError([errors.no_such_task(span, ref=task.ref, refs=refs)])


def is_server(spec: ir.Spec, task: Task) -> bool:
    """Whether a task only serves: every task in one graph, else parameter servers alone."""
    return replication_of(spec) == "in_graph" or task.job == PARAMETER_SERVER


def require_server(spec: ir.Spec, task: Task) -> None:
    """Raise SpecError if `task` is not run by `tfdeploy serve`."""
    if not is_server(spec, task):
        _refuse(spec, task)


def require_trainer(spec: ir.Spec, membership: Membership) -> None:
    """Raise SpecError if this process does not train.

    In one graph the client trains, which is no task. If workers have graphs of their own, each one trains.

    Args:
        spec: The spec, which says whether workers have graphs of their own.
        membership: The cluster, and the task of this process in it, if it is one.
    """
    task, jobs = membership.task, spec.devices.jobs
    if task is not None and is_server(spec, task):
        _refuse(spec, task)
    if task is None and replication_of(spec) == "between_graph":
        refs = [each.ref for each in membership.cluster.tasks if not is_server(spec, each)]
        raise SpecError([errors.which_task(jobs[0].span if jobs else None, refs=refs)])


def _refuse(spec: ir.Spec, task: Task) -> None:
    replication = replication_of(spec)
    serves = is_server(spec, task)
    raise SpecError(
        [
            errors.not_for_this_command(
                spec.devices.span,
                ref=task.ref,
                replication=replication,
                serves=serves,
                in_graph=replication == "in_graph",
            )
        ]
    )


def fingerprint(spec: ir.Spec) -> str:
    """Return the SHA-256 of the spec's text with all defaults filled in, in hexadecimal digits.

    Included files and overrides count. The folders of data files and the run directory do not count, because
    they may differ between machines.
    """
    return sha256(
        unparse(with_paths(spec, os.path.basename, None)).encode(errors="surrogateescape")
    ).hexdigest()
