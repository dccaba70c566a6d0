"""`tfdeploy compile-and-run`, which is also `compile-and-run`: train what a spec declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from attrs import evolve

from tfdeploy.cli.commands.serve import listen_option, task_option
from tfdeploy.cli.common import Common
from tfdeploy.cli.faults import goes_on
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, emulate_option, offer
from tfdeploy.cli.terminal import say
from tfdeploy.streams import require_output

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.runtime.membership.addresses import Membership, Task
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.records.result import Result


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@emulate_option()
@click.option(
    "--resume",
    type=click.Choice(["auto", "never", "must"]),
    default="auto",
    show_default=True,
    help="auto continues from a checkpoint if there is one, must requires one, never starts again.",
)
@click.option(
    "--task",
    metavar="JOB:INDEX",
    callback=task_option,
    help="Run one worker of a between-graph cluster, such as worker:1; TF_CONFIG may also name it.",
)
@click.option(
    "--launch",
    is_flag=True,
    help="Start every task of the cluster on this machine; the default if the jobs have no hosts.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON, the last line of the output."
)
@click.option(
    "--profile",
    type=click.IntRange(min=1),
    metavar="STEPS",
    help="Profile this many steps, for TensorBoard and for Chrome's trace viewer, into profile/.",
)
@listen_option
@click.option(
    "--modules",
    hidden=True,
    metavar="FOLDER",
    help="The folder of the modules of python(...), if not that of SPEC.",
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
    as_json: bool,
    profile: int | None,
    listen_everywhere: bool,
    modules: str | None,
) -> int:
    """Train SPEC: compile it to a multi-tower graph, run it, and write a model to its run directory."""
    if emulate and (task is not None or launch):
        raise click.UsageError("--emulate is for one process: it cannot be combined with --task or --launch")
    loaded = read_spec(spec, common)
    goes_on(common)
    if modules is not None:  # a launcher has written the spec elsewhere, for a task that it starts again
        loaded = evolve(loaded, path=str(Path(modules) / Path(spec).name))
    if profile is not None and loaded.update.mode == "async":
        raise click.UsageError("--profile needs clones that make their steps together, not `mode = async`")
    if profile is not None and loaded.update.replication == "between_graph":
        raise click.UsageError("--profile needs one graph of all clones, not `replication = between_graph`")
    from tfdeploy.cli import clusters
    from tfdeploy.runtime.options import RunOptions
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
        if emulate or not (loaded.devices.jobs or task is not None or launch):
            result = start.run(loaded, options)
        else:
            membership = clusters.membership_of(loaded, task, launch=launch)
            if membership is not None:
                membership = evolve(membership, listen_everywhere=listen_everywhere)
            code, result = _on_cluster(loaded, spec, common, options, membership)
    except (Interrupted, Terminated) as end:
        show(end.result)
        raise
    show(result)
    return code


def _on_cluster(
    spec: ir.Spec, path: str, common: Common, options: RunOptions, membership: Membership | None
) -> tuple[int, Result | None]:
    """Train as what this process is of the spec's cluster, or start it all; return exit code and result."""
    from tfdeploy.cli import clusters
    from tfdeploy.runtime.train import start

    if membership is None:
        return clusters.launch(spec, path, common, options)
    return 0, start.run(spec, evolve(options, membership=membership))
