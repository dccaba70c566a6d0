"""`tfdeploy compile-and-run`, which is also `compile-and-run`: train what a spec declares."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from attrs import evolve

from tfdeploy.cli.commands.cluster import listen_option, task_option
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.faults import goes_on
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, emulate_option, flag, offer, option
from tfdeploy.own_process import require_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl import ir
    from tfdeploy.runtime.membership.addresses import Membership, Task
    from tfdeploy.runtime.plans import RunOptions
    from tfdeploy.runtime.records.result import Result


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@emulate_option()
@option(
    "--resume",
    "auto continues from a checkpoint if there is one, must requires one, never starts again.",
    type=click.Choice(["auto", "never", "must"]),
    default="auto",
)
@option(
    "--task",
    "Run one worker of a between-graph cluster, such as worker:1; TF_CONFIG may also name it.",
    metavar="JOB:INDEX",
    callback=task_option,
)
@flag("--launch", "Start every task of the cluster on this machine; the default if the jobs have no hosts.")
@option(
    "--join",
    "Be a task of the cluster whose tasks meet there: that of --task, or else one that is free.",
    metavar="FOLDER|HOST:PORT",
)
@flag("--json", "as_json", "Print the result as JSON, the last line of the output.")
@option(
    "--profile",
    "Profile this many steps, for TensorBoard and for Chrome's trace viewer, into profile/.",
    type=click.IntRange(min=1),
    metavar="STEPS",
)
@listen_option
@option(
    "--modules",
    "The folder of the modules of python(...), if not that of SPEC.",
    hidden=True,
    metavar="FOLDER",
)
@common_options
def command(
    common: Common,
    spec: str,
    *,
    emulate: bool,
    resume: Literal["auto", "never", "must"],
    task: Task | None,
    launch: bool,
    join: str | None,
    as_json: bool,
    profile: int | None,
    listen_everywhere: bool,
    modules: str | None,
) -> int:
    """Train SPEC: compile it to a multi-tower graph, run it, and write a model to its run directory."""
    if emulate and (task is not None or launch or join):
        raise click.UsageError("--emulate is for one process: it cannot be combined with others of a cluster")
    loaded = read_spec(spec, common)
    goes_on(common)
    if modules is not None:  # a launcher has written the spec elsewhere, for a task that it starts again
        loaded = evolve(loaded, path=str(Path(modules) / Path(spec).name))
    if profile is not None and loaded.update.mode == "async":
        raise click.UsageError("--profile needs clones that make their steps together, not `mode = async`")
    if profile is not None and loaded.update.replication == "between_graph":
        raise click.UsageError("--profile needs one graph of all clones, not `replication = between_graph`")
    from tfdeploy.runtime.plans import RunOptions
    from tfdeploy.runtime.show.console import make_reporter
    from tfdeploy.runtime.stop import Interrupted, Terminated
    from tfdeploy.runtime.train import start

    def show(result: Result | None) -> None:
        if as_json and result is not None:
            say(result.to_json())
            require_output()

    reporter = make_reporter(color=common.color_output, color_errors=common.color_errors, quiet=common.quiet)
    options = RunOptions(
        emulate, resume, common.verbose, own_process=True, profile=profile or 0, reporter=reporter
    )
    code, result = 0, None
    try:
        if emulate or not (loaded.devices.jobs or task is not None or launch or join):
            result = start.run(loaded, options)
        else:
            tell = (lambda _: None) if common.quiet else partial(say, flush=True)
            membership = membership_of(loaded, task, tell, launch=launch, join=join)
            if membership is None:
                code, result = launch_tasks(loaded, spec, common, options)
            else:
                membership = evolve(membership, listen_everywhere=listen_everywhere)
                result = run_task(loaded, spec, common, options, membership)
    except (Interrupted, Terminated) as end:
        show(end.result)
        raise
    show(result)
    return code


def membership_of(
    spec: ir.Spec, task: Task | None, tell: Callable[[str], None], *, launch: bool, join: str | None
) -> Membership | None:
    """Return the part of this process in the spec's cluster; None if all of its tasks are to be started here.

    Raises:
        click.UsageError: If the options contradict each other.
        SpecError: If the task does not exist, or does not train.
        RunError: If TF_CONFIG does not fit the spec.
    """
    if launch and task is not None:
        raise click.UsageError("--launch starts every task, and --task says that this is one of them")
    if launch and join:
        raise click.UsageError(
            "--launch starts every task, and --join meets tasks that are started elsewhere"
        )
    if (launch or join) and not spec.devices.jobs:
        raise click.UsageError(
            f"{'--launch' if launch else '--join'} needs a spec with jobs, and this one has none"
        )
    if launch:
        return None
    from tfdeploy.runtime.membership import membership
    from tfdeploy.runtime.membership.addresses import tasks_of
    from tfdeploy.runtime.membership.ranks import lone_process, rank_of

    met = None
    if join or not membership.knows_addresses(spec, os.environ):
        met = membership.meet_others(spec, os.environ, task, join, tell)
    if met is not None:
        found, needed = met
        os.environ.update(needed)
        return membership.with_run_secret(found, os.environ)
    given = membership.find_membership(spec, os.environ, task)
    if given is None:
        if (note := lone_process(os.environ, len(tasks_of(spec)))) is not None:
            tell(note)
        return None
    if rank_of(os.environ) is None:
        membership.require_trainer(spec, given)
    return membership.with_run_secret(given, os.environ)


def run_task(
    spec: ir.Spec, path: str, common: Common, options: RunOptions, membership: Membership
) -> Result | None:
    """Be one task of a cluster, whatever it is: a server, a worker, or the server and client of one graph.

    Returns:
        The outcome of the run; None for a server. For the errors see `start.run` and `server.serve`.
    """
    from tfdeploy.runtime.membership.membership import is_server
    from tfdeploy.runtime.train import start

    task = membership.task
    if task is None or not is_server(spec, task):
        return start.run(spec, evolve(options, membership=membership))
    if task == membership.cluster.chief:
        return launch_tasks(spec, path, common, options, membership)[1]
    from tfdeploy.cli.faults import show
    from tfdeploy.runtime.cluster.server import serve

    tell = (lambda _: None) if common.quiet else partial(say, flush=True)
    serve(spec, membership, tell, lambda each: show([each], common), verbose=common.verbose)
    return None


def launch_tasks(
    spec: ir.Spec, path: str, common: Common, options: RunOptions, own: Membership | None = None
) -> tuple[int, Result | None]:
    """Start every task of a spec's cluster on this machine, or only the server of one task, and train.

    Tasks read the same file with the same options as this process. A task that is started again reads a
    copy, in case the file has been changed meanwhile.

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
        options_of_tasks = (*common.settings, *flags)
        command = evolve(later, path=path, options=options_of_tasks, trainer_options=(), later=later)
        if replication_of(spec) == "in_graph":
            return 0, launched_run.run_client(command, options, output, own)
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
