"""`tfdeploy status`: whether every task of a cluster is running, with a line for each."""

from __future__ import annotations

import os

import click

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, offer

NOT_WELL = 1


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@common_options
def command(common: Common, spec: str) -> int:
    """Show whether every task of the cluster that SPEC declares is running, since when, and where.

    The addresses of the tasks are given by `hosts` in the spec, by TF_CONFIG, or, for a cluster that was
    started on this machine, by the run directory. Exits with 1 if a task is missing or runs another spec.
    """
    loaded = read_spec(spec, common)
    from tfdeploy.runtime.cluster.monitor import cluster_status

    found = cluster_status(loaded, os.environ, verbose=common.verbose)
    names = max(len(each.task.ref) for each in found)
    addresses = max(len(each.address) for each in found)
    for each in found:
        say(f"{each.task.ref:<{names}}  {each.address:<{addresses}}  {each.words}")
    return 0 if all(each.well for each in found) else NOT_WELL
