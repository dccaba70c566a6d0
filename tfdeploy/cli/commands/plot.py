"""`tfdeploy plot`: the curves of one run or several, in the terminal or as a picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.options import common_options, force_option

ROWS = 16


def _picture(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix != ".svg":
        raise click.BadParameter(f"{str(path)!r} is no .svg file", ctx, param)
    return path


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--score",
    metavar="NAME",
    default="loss",
    show_default=True,
    help="What to draw: loss, learning_rate, examples_per_second, or the name of a metric.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_picture,
    metavar="FILE",
    help="Write an .svg picture in place of drawing in the terminal.",
)
@force_option
@common_options
def command(common: Common, runs: tuple[Path, ...], *, score: str, out: Path | None, force: bool) -> int:
    """Draw a score of RUN... (run directories) over the steps, without TensorFlow."""
    from tfdeploy.runtime.show.curves import history_of, read_curves

    curves = read_curves(runs, score)
    if out is not None:
        from tfdeploy.runtime.records.files import InputFiles, is_own_text, require_free, write_output
        from tfdeploy.runtime.show.curves import picture

        InputFiles(tuple(history_of(run) for run in runs)).require_not_input(out)
        require_free(out, is_own_text, force=force)
        write_output(out, picture(curves, score))
        say(out)
        return 0
    from tfdeploy.runtime.show.curves import draw

    width = shutil.get_terminal_size().columns
    drawn = draw(curves, score, width=width, height=ROWS, color=common.color_output)
    say(drawn, color=common.color_output, end="")
    return 0
