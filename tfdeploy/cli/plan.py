"""`tfdeploy plan`: where everything of a spec goes, before anything runs."""

from __future__ import annotations

import click

from tfdeploy.cli.options import Common, common_options
from tfdeploy.cli.reading import read_spec

WIDE = 120
"""Columns where standard output is no terminal."""


@click.command()
@click.argument("spec")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the placement map as JSON, as in placement.json."
)
@click.option("--ops", is_flag=True, help="List every op with its device and what put it there.")
@click.option(
    "--emulate", is_flag=True, help="Make every declared device a logical CPU device of one process."
)
@click.option("--filter", "glob", metavar="GLOB", help="Show only ops whose name, or scope, matches.")
@click.option("--depth", type=click.IntRange(min=1), help="How deep scopes are opened; default: what fits.")
@click.option("--only-misplaced", is_flag=True, help="Show only ops that sit elsewhere than was asked.")
@common_options
def command(
    common: Common,
    spec: str,
    *,
    as_json: bool,
    ops: bool,
    emulate: bool,
    glob: str | None,
    depth: int | None,
    only_misplaced: bool,
) -> int:
    """Build the graph of SPEC, run nothing, and print its placement map."""
    loaded = read_spec(spec, common)
    from tfdeploy import api

    placement = api.compile(loaded, emulate=emulate, verbose=common.verbose).placement
    if as_json:
        click.echo(placement.to_json(), nl=False)
        return 0
    from compiler.report.oplist import op_list
    from compiler.report.terminal import terminal_map
    from compiler.report.view import View

    view = View(depth, glob, only_misplaced, width=_width(), color=common.color_output)
    if ops:
        for line in op_list(placement, view):
            click.echo(line)
    else:
        click.echo(terminal_map(placement, view), nl=False)
    return 0


def _width() -> int:
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
