"""`tfdeploy sweep`: train a spec with many settings, and compare what they come to."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import evolve

from dsl.files.regular import as_argument
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.faults import goes_on
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, emulate_option, file_option, flag, offer, option, set_option
from tfdeploy.own_process import require_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dsl import ir
    from tfdeploy.sweeping.space import Space
    from tfdeploy.sweeping.sweep import Sweep, Trial

FAILED = 1
MANY = 10_000
"""The most trials of a grid."""


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@set_option("--grid", "grids", "Try each of these values, parted by commas; may be given several times.")
@set_option(
    "--range", "ranges", "Choose from LOW..HIGH, or by logarithms from LOW..HIGH,log; needs --trials."
)
@file_option("--file", "Read lists and ranges by path from a file in YAML.")
@option("--trials", "Let Optuna choose N trials, in place of all.", type=click.IntRange(1, MANY), metavar="N")
@option(
    "--seed",
    "The seed of what Optuna chooses.",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=False,
)
@option(
    "--at-once",
    "Run so many at once, each on a part of the cores and GPUs.",
    type=click.IntRange(min=1),
    default=1,
)
@option("--score", "Compare by this.  [default: that of best, else loss]", metavar="NAME")
@option("--out", "The folder.  [default: runs/SPEC-sweep]", type=click.Path(path_type=Path), metavar="FOLDER")
@emulate_option("each process")
@flag("--json", "as_json", "Print the trials as JSON, as the last line.")
@common_options
def command(
    common: Common,
    spec: str,
    *,
    grids: tuple[tuple[str, str], ...],
    ranges: tuple[tuple[str, str], ...],
    file: str | None,
    trials: int | None,
    seed: int,
    at_once: int,
    score: str | None,
    out: Path | None,
    emulate: bool,
    as_json: bool,
) -> int:
    """Train SPEC with every combination of some values, and print a table of what they come to.

    Each trial is a run of its own, with a run directory in FOLDER. The same command goes on with a sweep that
    was ended: trials that have finished stay, others go on from their checkpoints. More values may be added.
    Exits with 1 if a trial has failed.
    """
    from tfdeploy.sweeping.space import BadSpaceError, Space, chosen, read_file

    try:
        lists, spans = read_file(Path(file)) if file is not None else ({}, {})
        space = Space.of({**lists, **dict(grids)}, {**spans, **dict(ranges)})
    except BadSpaceError as error:
        raise click.UsageError(str(error)) from error
    if not space.paths:
        raise click.UsageError("give --grid PATH=VALUE,VALUE, --range PATH=LOW..HIGH or --file FILE")
    _refuse_directory([*space.paths, *(path for path, _ in common.overrides)])
    if space.ranges and trials is None:
        raise click.UsageError("--range has no end of values: give --trials N, or --grid with a list")
    if trials is None and space.count > MANY:
        raise click.UsageError(f"the grid has {space.count:,} trials, and at most {MANY:,} are tried")
    loaded = read_spec(spec, common)
    needed = _checked(spec, common, space, loaded)
    goes_on(common)
    from grammar.unparse import quoted
    from tfdeploy.runtime.records.directory import RUNS
    from tfdeploy.runtime.records.lock import locked
    from tfdeploy.runtime.stop import StopSignals
    from tfdeploy.sweeping.running import Runner, parts, visible_gpus
    from tfdeploy.sweeping.sweep import Sweep, SweepRecord, goal_of

    gpus = [] if emulate else visible_gpus()
    places = parts(at_once, sorted(os.sched_getaffinity(0)), gpus, needed=0 if emulate else needed)
    folder = out if out is not None else RUNS / f"{Path(spec).stem}-sweep"
    sweep = Sweep.open(folder, SweepRecord(spec, _digest(loaded), *goal_of(loaded, score)))
    flags = [*common.flags, *(["--emulate"] if emulate else [])]

    def arguments(trial: Trial) -> list[str]:
        pairs = [*trial.settings.items(), ("train.directory", quoted(str(sweep.directory(trial))))]
        if loaded.train.prometheus is not None and len(places) > 1:  # one address is not for several runs
            pairs.append(("train.prometheus", "none"))
        own = evolve(common, overrides=(*common.overrides, *pairs))
        return ["compile-and-run", as_argument(spec), *own.settings, *flags, "--color", "never"]

    def tell(trial: Trial, seconds: float) -> None:
        if not common.quiet:
            from tfdeploy.sweeping.report import told

            say(told(sweep, trial, seconds, total=trials or len(sweep.record.trials)), flush=True)

    with locked(folder), StopSignals(own_process=True) as stop:
        tried = _all(sweep, space) if trials is None else chosen(sweep, space, trials, seed)
        sweep.save()
        Runner(sweep, arguments, places, stop, tell).run(tried)
        _show(sweep, as_json=as_json)
        if stop.received is not None:
            say("to go on, run the same command again", err=True)
        stop.check()
    return FAILED if any(each.failure for each in sweep.record.trials) else 0


def _refuse_directory(paths: list[str]) -> None:
    if "train.directory" in paths:
        raise click.UsageError("each trial has a directory of its own: name the folder of all with --out")


def _checked(spec: str, common: Common, space: Space, loaded: ir.Spec) -> int:
    """Read the spec with every value of the lists, and both ends of the ranges, before anything runs.

    Returns:
        The most GPUs that one of them declares.

    Raises:
        SpecError: If one of them has errors.
    """
    import grammar

    ends = {path: (f"{each.low:g}", f"{each.high:g}") for path, each in space.ranges.items()}
    choices: Mapping[str, tuple[str, ...]] = {**space.grids, **ends}
    first = {path: values[0] for path, values in choices.items()}
    needed = loaded.devices.gpu or 0
    for path, values in choices.items():
        for value in values:
            tried = tuple({**first, path: value}.items())
            found = grammar.read(spec, (*common.overrides, *tried), allow_python=common.allow_python)
            needed = max(needed, found.require().devices.gpu or 0)
    return needed


def _digest(spec: ir.Spec) -> str:
    from tfdeploy.runtime.records.effective import effective_text

    plain = evolve(spec, train=evolve(spec.train, directory=None))
    return sha256(effective_text(plain).encode()).hexdigest()


def _all(sweep: Sweep, space: Space) -> Iterator[Trial]:
    """Enter all combinations into the sweep, and return those that have not finished."""
    trials = [sweep.trial(each) for each in space.combinations()]
    return (each for each in trials if not sweep.is_done(each))


def _show(sweep: Sweep, *, as_json: bool) -> None:
    from tfdeploy.runtime.records.files import write_output
    from tfdeploy.sweeping.report import lines, picture, to_text
    from tfdeploy.sweeping.sweep import PICTURE

    drawn = picture(sweep)
    if drawn is not None:
        write_output(sweep.folder / PICTURE, drawn)
    if as_json:
        say(to_text(sweep))
    else:
        say("\n".join(["", *lines(sweep, shutil.get_terminal_size().columns), ""]))
        for each in sweep.record.trials:
            if each.failure:
                say(f"{each.name} failed: {each.failure}")
        say(f"  directory   {sweep.folder}")
        if drawn is not None:
            say(f"  picture     {sweep.folder / PICTURE}")
    require_output()
