"""Decides how a spec with a cluster is trained, and starts all of its tasks if that is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from attrs import evolve

from tfdeploy.cli.terminal import say

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.cli.common import Common
    from tfdeploy.runtime.membership.addresses import Membership, Task
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.records.result import Result


def membership_of(spec: ir.Spec, task: Task | None, *, launch: bool) -> Membership | None:
    """Return the part of this process in the spec's cluster; None if all of its tasks are to be started here.

    Args:
        spec: The spec.
        task: The task that `--task` names, or None.
        launch: Whether `--launch` asks for all tasks on this machine.

    Raises:
        click.UsageError: If the options contradict each other.
        SpecError: If the task does not exist, or does not train.
        RunError: If TF_CONFIG does not fit the spec.
    """
    if launch and task is not None:
        raise click.UsageError("--launch starts every task, and --task says that this is one of them")
    if launch and not spec.devices.jobs:
        raise click.UsageError("--launch needs a spec with jobs, and this one has none")
    if launch:
        return None
    from tfdeploy.runtime.membership.membership import find_membership, require_trainer, with_run_secret

    found = find_membership(spec, os.environ, task)
    if found is not None:
        require_trainer(spec, found)
        return with_run_secret(found, os.environ)
    return None


def launch(spec: ir.Spec, path: str, common: Common, options: RunOptions) -> tuple[int, Result | None]:
    """Start every task of a spec's cluster on this machine and train.

    Tasks read the same file with the same options as this process. A task that is started again reads a
    copy, in case the file has been changed meanwhile.

    Args:
        spec: The spec.
        path: The file of the spec.
        common: The common options.
        options: The options of the run.

    Returns:
        The exit code, and the outcome of the run if it has one. For the errors see `start.run`.
    """
    from compiler.compatibility import replication_of
    from tfdeploy.cli.faults import show
    from tfdeploy.runtime.launch import launched_run

    launched_run.require_launchable(spec)
    flags, colored = _flags(common), _colored(common)
    output = launched_run.TaskOutput(
        spec,
        lambda text, stream: say(text, color=colored, err=stream == "stderr", flush=True),
        quiet=common.quiet,
    )
    with launched_run.copied_spec(spec, flags, options) as later:
        overrides = [word for name, value in common.overrides for word in ("--set", f"{name}={value}")]
        command = evolve(later, path=path, options=(*overrides, *flags), trainer_options=(), later=later)
        if replication_of(spec) == "in_graph":
            return 0, launched_run.run_client(command, options, output)
        ended = launched_run.run_workers(command, output, own_process=True)
    if ended.failure is not None:
        show([evolve(ended.failure, notes=())], common)  # the output of the task has been written already
    return ended.code, launched_run.result_of(ended.result) if ended.result is not None else None


def _colored(common: Common) -> bool:
    """Whether tasks write in colour, which they cannot decide because they write to pipes."""
    return common.color_output and common.color_errors


def _flags(common: Common) -> list[str]:
    """Return the common options, except `--set`, as arguments of a command line."""
    return ["--color", "always" if _colored(common) else "never", *common.flags]
