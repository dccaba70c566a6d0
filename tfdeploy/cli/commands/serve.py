"""`tfdeploy serve`: run the server of one task of a cluster."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click
from attrs import evolve

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, offer

if TYPE_CHECKING:
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


listen_option = click.option(
    "--listen-everywhere",
    is_flag=True,
    help="Listen at every address of this machine if the task's own host leads to none of them.",
)


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.option(
    "--task",
    metavar="JOB:INDEX",
    callback=task_option,
    help="The task to run, such as ps:0; TF_CONFIG may also name it.",
)
@listen_option
@common_options
def command(common: Common, spec: str, *, task: Task | None, listen_everywhere: bool) -> int:
    """Run the server of one task of the cluster that SPEC declares.

    Parameter servers are such tasks, and with `replication = in_graph` workers are too. The addresses of the
    tasks are given by `hosts` in the spec or by TF_CONFIG. The server ends with the run, or by a signal.
    TensorFlow's servers have no authentication: each listens only at the address that it is given.
    """
    loaded = read_spec(spec, common)
    from tfdeploy.cli.faults import goes_on, show
    from tfdeploy.runtime.cluster.server import serve
    from tfdeploy.runtime.membership.membership import find_membership, with_run_secret

    membership = find_membership(loaded, os.environ, task)
    if membership is None or membership.task is None:
        raise click.UsageError("--task says which task this is, as in --task ps:0")
    membership = evolve(with_run_secret(membership, os.environ), listen_everywhere=listen_everywhere)
    goes_on(common)
    tell = (lambda _: None) if common.quiet else partial(say, flush=True)
    serve(loaded, membership, tell, lambda each: show([each], common), verbose=common.verbose)
    return 0
