"""`tfdeploy diff`: what moved, appeared and vanished between two placements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from attrs import evolve

from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.files import STDOUT, map_file, read_map, require_apart, require_free, write_page
from tfdeploy.cli.options import (
    common_options,
    file_option,
    flag,
    force_option,
    offer,
    profile_option,
    set_option,
)

if TYPE_CHECKING:
    from compiler.report.page.data import Side
    from tfdeploy.cli.building import Builder

DIFFERENT = 1

Pairs = tuple[tuple[str, str], ...]


@click.command()
@click.argument("before", metavar="A", shell_complete=offer("specs_or_maps"))
@click.argument("after", metavar="[B]", required=False, shell_complete=offer("specs_or_maps"))
@set_option("--set-a", "set_before", "As --set, for A alone.")
@set_option("--set-b", "set_after", "As --set, for B alone.")
@flag("--json", "as_json", "Print the differences as JSON.")
@file_option("--html", "Write both placements side by side as an HTML page; - for standard output.")
@flag("--open", "open_page", "Open the page that --html writes.")
@profile_option
@force_option
@common_options
def command(
    common: Common,
    before: str,
    after: str | None,
    *,
    set_before: Pairs,
    set_after: Pairs,
    as_json: bool,
    html: str | None,
    open_page: bool,
    profile: str | None,
    force: bool,
) -> int:
    """Compare the placements of A and B; exit with 1 if they differ.

    A and B are specs, placement.json files (for which TensorFlow is not started), or directories with one.
    Without B, A is compared with itself under --set-a and --set-b.
    """
    if after is None and not (set_before or set_after):
        raise click.UsageError("give B, or --set-a or --set-b to compare A with itself")
    if open_page and html in (None, STDOUT):
        raise click.UsageError("--open needs --html FILE: it opens the page that this writes")
    second = after if after is not None else before
    outputs = [html] if html is not None and html != STDOUT else []
    require_free(outputs, [str(map_file(each) or each) for each in (before, second)], force=force)
    specs = [each for each in (before, second) if map_file(each) is None]
    builder = _builder(common, profile, share=len(specs) > 1) if specs else None
    one, other = (
        _side(builder, path, more, option, outputs)
        for path, more, option in ((before, set_before, "--set-a"), (second, set_after, "--set-b"))
    )
    from compiler.report.compare import compare

    found = compare(one.placement, other.placement)
    if html is not None:
        from compiler.report.page.html import diff_page

        write_page(html, diff_page(one, other, found), open_page=open_page)
    elif as_json:
        from compiler.report.compare import diff_json

        write_result(diff_json(found))
    else:
        from compiler.report.diff_text import diff_text
        from compiler.report.view import Ink

        say(diff_text(found, Ink(common.color_output)), color=common.color_output, end="")
    return DIFFERENT if found.different else 0


def _builder(common: Common, profile: str | None, *, share: bool) -> Builder:
    from tfdeploy.cli.building import Builder
    from tfdeploy.runtime.plans import SharedTowers

    return Builder(common, profile=profile, towers=SharedTowers() if share else None)


def _side(builder: Builder | None, path: str, more: Pairs, option: str, outputs: list[str]) -> Side:
    """Return one of the placements; raises RunError for `outputs` that it is read from."""
    from compiler.report.page.data import Side, lines_of, texts_of, texts_on_disk

    file = map_file(path)
    if file is None:
        assert builder is not None
        from tfdeploy.cli.files import read_spec

        common = builder.common
        spec = read_spec(path, evolve(common, overrides=common.overrides + more))
        if outputs:
            from tfdeploy.runtime.records.files import InputFiles

            require_apart(outputs, InputFiles.of(spec))
        placement = builder.placed(spec).placement
        settings = "".join(f", {name}={value}" for name, value in more)
        return Side(path + settings, placement, lines_of(placement, texts_of(spec)))
    if more:
        raise click.UsageError(f"{option} is for specs, and {path} is a placement map")
    placement = read_map(file)
    return Side(path, placement, lines_of(placement, texts_on_disk(placement)))
