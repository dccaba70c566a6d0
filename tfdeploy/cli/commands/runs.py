"""`tfdeploy runs` and `tfdeploy plot`: runs with their scores and what differs in their specs, and curves."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.options import common_options, flag, force_option, option

UNDELIVERED = 1


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER...]")
@flag("--compare", "Show the runs beside each other, with all settings that differ.")
@flag("--deliver", "Send what trackers have not got of the runs.")
@option("--sort", "Sort by loss, examples_per_second or a metric, lowest first.", metavar="NAME")
@flag("--json", "as_json", "Print the runs as JSON, with all settings of their specs.")
@common_options
def runs_command(
    common: Common,
    folders: tuple[Path, ...],
    *,
    compare: bool,
    deliver: bool,
    sort: str | None,
    as_json: bool,
) -> int:
    """List the runs in FOLDER... and below (default: runs), without TensorFlow.

    A run has its state, its last step, the scores of validation, else test, else training, its speed, and the
    settings in which its spec differs from those of the others. FOLDER may be a run directory itself.
    """
    from dsl.diagnostics import RunError
    from dsl.errors import running as errors
    from dsl.files.typed_json import to_json
    from tfdeploy.runtime.records.directory import RUNS
    from tfdeploy.runtime.records.found import FoundRun, runs_below
    from tfdeploy.runtime.show.runs import compare_lines, list_lines

    places = folders or (RUNS,)
    found = list(runs_below(places))
    missing = [each for each in folders if not each.exists()]
    if missing or not found:
        raise RunError(errors.no_runs(folders=list(map(str, missing or places))))
    if sort is not None:

        def key(run: FoundRun) -> tuple[bool, float]:
            value = {"examples_per_second": run.examples_per_second, **run.scores}.get(sort)
            return value is None, value or 0.0

        if all(key(each)[0] for each in found):
            known = sorted({"examples_per_second", *(name for each in found for name in each.scores)})
            raise RunError(errors.nothing_to_plot(score=sort, known=known))
        found.sort(key=key)
    if deliver:
        return _delivered([each.directory for each in found], common)
    if as_json:
        write_result(f"{to_json(found, indent=1)}\n")
        return 0
    width = shutil.get_terminal_size().columns
    for line in (compare_lines if compare else list_lines)(found, width):
        say(line)
    return 0


ROWS = 16


def _picture(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix != ".svg":
        raise click.BadParameter(f"{str(path)!r} is no .svg file", ctx, param)
    return path


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@option(
    "--score",
    "What to draw: loss, learning_rate, examples_per_second, or the name of a metric.",
    metavar="NAME",
    default="loss",
)
@option(
    "--out",
    "Write an .svg picture in place of drawing in the terminal.",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_picture,
    metavar="FILE",
)
@force_option
@common_options
def plot_command(common: Common, runs: tuple[Path, ...], *, score: str, out: Path | None, force: bool) -> int:
    """Draw a score of RUN... (run directories) over the steps, without TensorFlow."""
    from tfdeploy.runtime.show.runs import history_of, read_curves

    curves = read_curves(runs, score)
    if out is not None:
        from tfdeploy.runtime.records.files import InputFiles, is_own_text, require_free, write_output
        from tfdeploy.runtime.show.runs import picture

        InputFiles(tuple(history_of(run) for run in runs)).require_not_input(out)
        require_free(out, is_own_text, force=force)
        write_output(out, picture(curves, score))
        say(out)
        return 0
    from tfdeploy.runtime.show.runs import draw

    width = shutil.get_terminal_size().columns
    drawn = draw(curves, score, width=width, height=ROWS, color=common.color_output)
    say(drawn, color=common.color_output, end="")
    return 0


def _delivered(directories: list[str], common: Common) -> int:
    """Send what trackers have not got of runs that have ended; return 1 if something is left."""
    import subprocess

    from dsl.errors.names import python_not_allowed
    from tfdeploy.cli.faults import show
    from tfdeploy.progress import busy
    from tfdeploy.runtime.records.directory import RunDirectory
    from tfdeploy.runtime.records.lock import locked
    from tfdeploy.runtime.track.tracking import command, tracked, undelivered

    code = 0
    for each in directories:
        directory = RunDirectory(Path(each))
        record = tracked(directory)
        if record is None or record.complete:
            continue
        if record.name == "python" and not common.allow_python:
            show([python_not_allowed(None)], common)
            code = UNDELIVERED
            continue
        with locked(directory.path), busy(f"sending {each} to {record.name}"):
            subprocess.run(
                command(directory.path, 0), stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        missing = undelivered(directory)
        if missing is None:
            say(f"{each}: {record.name} has got everything")
        else:
            show([missing], common)
            code = UNDELIVERED
    return code
