"""`tfdeploy diff`: what moved, appeared and vanished between two placements."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from attrs import evolve

from tfdeploy.cli.common import Common
from tfdeploy.cli.maps import map_file, read_map
from tfdeploy.cli.options import common_options, offer, pairs, profile_option
from tfdeploy.cli.terminal import say

if TYPE_CHECKING:
    from compiler.mapping.records import PlacementMap

DIFFERENT = 1

Pairs = tuple[tuple[str, str], ...]


@click.command()
@click.argument("before", metavar="A", shell_complete=offer("specs_or_maps"))
@click.argument("after", metavar="[B]", required=False, shell_complete=offer("specs_or_maps"))
@click.option(
    "--set-a",
    "set_before",
    multiple=True,
    metavar="PATH=VALUE",
    callback=pairs,
    shell_complete=offer("overrides"),
    help="As --set, for A alone.",
)
@click.option(
    "--set-b",
    "set_after",
    multiple=True,
    metavar="PATH=VALUE",
    callback=pairs,
    shell_complete=offer("overrides"),
    help="As --set, for B alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@profile_option
@common_options
def command(
    common: Common,
    before: str,
    after: str | None,
    *,
    set_before: Pairs,
    set_after: Pairs,
    as_json: bool,
    profile: str | None,
) -> int:
    """Compare the placements of A and B; exit with 1 if they differ.

    A and B are specs, placement.json files (for which TensorFlow is not started), or directories with one.
    Without B, A is compared with itself under --set-a and --set-b.
    """
    if after is None and not (set_before or set_after):
        raise click.UsageError("give B, or --set-a or --set-b to compare A with itself")
    first = _side(common, before, set_before, "--set-a", profile)
    second = _side(common, after if after is not None else before, set_after, "--set-b", profile)
    from compiler.report.comparison.compare import compare

    found = compare(first, second)
    if as_json:
        from compiler.report.comparison.diff_json import diff_json

        sys.stdout.write(diff_json(found))
    else:
        from compiler.report.comparison.diff_text import diff_text
        from compiler.report.view import Ink

        say(diff_text(found, Ink(common.color_output)), color=common.color_output, end="")
    return DIFFERENT if found.different else 0


def _side(common: Common, path: str, more: Pairs, option: str, profile: str | None) -> PlacementMap:
    file = map_file(path)
    if file is None:
        from tfdeploy.cli.building import build
        from tfdeploy.cli.files import read_spec

        spec = read_spec(path, evolve(common, overrides=common.overrides + more))
        return build(spec, common, forecast=True, profile=profile).placement()
    if more:
        raise click.UsageError(f"{option} is for specs, and {path} is a placement map")
    return read_map(file)
