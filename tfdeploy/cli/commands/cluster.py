"""`tfdeploy serve` and `tfdeploy status`: the server of a task of a cluster, and whether all tasks run."""

from __future__ import annotations

import os
from functools import partial

import click
from attrs import evolve

from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, flag, offer, option
from tfdeploy.runtime.membership.addresses import Task


def task_option(ctx: click.Context, param: click.Parameter, value: str | None) -> Task | None:
    """Read the value of `--task` (a callback of click)."""
    if value is None:
        return None
    from tfdeploy.runtime.membership.addresses import Task

    try:
        return Task.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


listen_option = flag(
    "--listen-everywhere",
    "Listen at every address of this machine if the task's own host leads to none of them.",
)


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@option(
    "--task",
    "The task to run, such as ps:0; TF_CONFIG may also name it.",
    metavar="JOB:INDEX",
    callback=task_option,
)
@listen_option
@common_options
def serve_command(common: Common, spec: str, *, task: Task | None, listen_everywhere: bool) -> int:
    """Run the server of one task of the cluster that SPEC declares.

    Parameter servers are such tasks, and with `replication = in_graph` workers are too. The addresses of the
    tasks are given by `hosts` in the spec or by TF_CONFIG. The server ends with the run, or by a signal.
    TensorFlow's servers have no authentication: each listens only at the address that it is given.
    """
    loaded = read_spec(spec, common)
    from tfdeploy.cli.faults import goes_on, show
    from tfdeploy.runtime.cluster.server import serve
    from tfdeploy.runtime.membership.membership import find_membership, with_run_secret
    from tfdeploy.runtime.membership.ranks import rank_of

    membership = find_membership(loaded, os.environ, task)
    if membership is None or membership.task is None:
        if (rank := rank_of(os.environ)) is not None:
            raise click.UsageError(
                f"every process that {rank.manager} starts runs `compile-and-run SPEC`, which also serves"
            )
        raise click.UsageError("--task says which task this is, as in --task ps:0")
    membership = evolve(with_run_secret(membership, os.environ), listen_everywhere=listen_everywhere)
    goes_on(common)
    tell = (lambda _: None) if common.quiet else partial(say, flush=True)
    serve(loaded, membership, tell, lambda each: show([each], common), verbose=common.verbose)
    return 0


NOT_WELL = 1


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@flag("--watch", "Show it again every two seconds, until Ctrl-C or the run's end.")
@flag("--json", "as_json", "Print all that is known of each task as JSON.")
@flag("--own", "Ask only whether the task that TF_CONFIG names for this process answers: a probe.")
@common_options
def status_command(common: Common, spec: str, *, watch: bool, as_json: bool, own: bool) -> int:
    """Show whether every task of the cluster that SPEC declares is running, where, and how it does.

    For each task that is its step, how many steps it is behind the first, its speed, memory, traffic and
    processor cores, and what it is doing. The addresses of the tasks are given by `hosts` in the spec, by
    TF_CONFIG, or, for a cluster that was started on this machine, by the run directory. Exits with 1 if a
    task is missing or runs another spec; of tasks that come and go, if too many are missing.
    """
    if watch + as_json + own > 1:
        raise click.UsageError("--watch is for people, --json for programs, and --own for probes")
    loaded = read_spec(spec, common)
    from tfdeploy.runtime.cluster.monitor import are_enough, cluster_status, own_status, running_cluster
    from tfdeploy.runtime.cluster.task_table import address_lines, task_table, watching
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    membership = running_cluster(loaded, os.environ)
    if own:
        found = [own_status(membership)]
        say("\n".join(address_lines(found)))
        return 0 if found[0].well else NOT_WELL
    start_tensorflow(verbose=common.verbose)
    if watch:
        watching(lambda: cluster_status(running_cluster(loaded, os.environ)), color=common.color_output)
        return 0
    found = cluster_status(membership)
    if as_json:
        from dsl.files.typed_json import to_json

        write_result(to_json(found, indent=1) + "\n")
    else:
        for line in address_lines(found):
            say(line)
        task_table(found, color=common.color_output)
    return 0 if are_enough(loaded, found) else NOT_WELL


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.argument("job", metavar="JOB=TASKS")
@common_options
def scale_command(common: Common, spec: str, job: str) -> int:
    """Let a job of the cluster of SPEC have another number of tasks while it trains, as in worker=5.

    The spec has to leave the number open, as in `tasks = 2..8`, and `compile-and-run` has to have started the
    tasks on this machine. New tasks begin with the weights of the others; those that are ended, the last ones
    first, finish their step.
    """
    name, _, number = job.partition("=")
    if not (number.isascii() and number.isdigit()):
        raise click.BadParameter(
            f"{job!r} is not of the form JOB=TASKS, as in worker=5", param_hint="JOB=TASKS"
        )
    loaded = read_spec(spec, common)
    from tfdeploy.runtime.cluster.monitor import is_launched
    from tfdeploy.runtime.launch.scaling import scale

    before = scale(loaded, name, int(number), runs=is_launched(loaded))
    say(f"{name}: {number} tasks instead of {before}")
    return 0
