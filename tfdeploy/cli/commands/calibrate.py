"""`tfdeploy calibrate`: measures what the ops of a spec cost on this machine, for forecasts of time."""

from __future__ import annotations

from pathlib import Path

import click

from compiler.time.profile import Profile
from dsl import ir
from dsl.files.regular import as_argument
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import Finite, common_options, emulate_option, force_option, offer, option
from tfdeploy.progress import busy
from tfdeploy.runtime.calibrate.processes import MeasureRequest


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@option(
    "--output",
    "The file for the profile; default: beside SPEC, where `plan` looks for it.",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    shell_complete=offer("files"),
)
@option("--steps", "Trace this many steps.", type=click.IntRange(2, 1000), default=30)
@option(
    "--seconds",
    "The most seconds that each of the six measurements may take.",
    type=Finite(0.1, 3600),
    metavar="SECONDS",
    default=20.0,
)
@option(
    "--turns",
    "Spread each measurement over this many turns. More of them average out a machine that is not "
    "always equally fast.",
    type=click.IntRange(2, 1000),
    default=12,
)
@emulate_option("one process")
@click.option("--threads", type=click.IntRange(1), hidden=True)
@click.option("--answer", type=click.Path(dir_okay=False, path_type=Path), hidden=True)
@force_option
@common_options
def command(
    common: Common,
    spec: str,
    *,
    output: Path | None,
    steps: int,
    seconds: float,
    turns: int,
    emulate: bool,
    threads: int | None,
    answer: Path | None,
    force: bool,
) -> int:
    """Measure what the ops of SPEC cost on this machine, and write a profile of it.

    With a profile, `plan`, `diff` and `expect` know how long a step takes. Steps are run on made-up examples,
    in processes of their own, so no data is read. The machine should do nothing else meanwhile.
    """
    from tfdeploy.runtime.calibrate.processes import MeasureRequest, joined

    if answer is not None and threads is not None:
        request = MeasureRequest(emulate, threads, threads == 1, steps, seconds, turns)
        _measure(common, spec, answer, request)
        return 0
    loaded = read_spec(spec, common)
    _require_cpus(loaded, emulate=emulate)
    from compiler.process import cores
    from compiler.time.profile import profile_beside
    from dsl.files.typed_json import to_json
    from tfdeploy.runtime.calibrate.processes import OtherWork
    from tfdeploy.runtime.records.files import InputFiles, require_free, require_place, write_output
    from tfdeploy.runtime.records.lock import OF_PROFILE, is_json_object

    path = output or profile_beside(spec)
    InputFiles.of(loaded).require_not_input(path)
    require_place(path)
    require_free(path, lambda each: is_json_object(each, OF_PROFILE), force=force)
    again = ["calibrate", as_argument(spec), "--color", common.color, *common.settings, *common.flags]
    again += ["--steps", str(steps), "--seconds", str(seconds), "--turns", str(turns)]
    again += ["--emulate"] if emulate else []
    others = OtherWork()
    found = _measured(again, [1, cores()] if cores() > 1 else [1])
    if found is None:
        return _FAILED
    write_output(path, to_json(joined(found, spec), indent=1) + "\n")
    for line in (*_summary(*found), *_disturbed(others.share())):
        say(line)
    say(f"{path}: written")
    return 0


_FAILED = 2


def _require_cpus(spec: ir.Spec, *, emulate: bool) -> None:
    declared = (spec.devices.gpu or 0) + sum(each.gpu for each in spec.devices.jobs)
    if declared and not emulate:
        raise click.UsageError(
            "only CPUs are measured: for GPUs, name their kind in `devices`, or add --emulate to measure the "
            "CPU devices that stand for them"
        )


def _measure(common: Common, path: str, answer: Path, request: MeasureRequest) -> None:
    """Do the work of a process that measures with a number of threads; the other one has shown warnings."""
    import grammar
    from dsl.files.typed_json import to_json
    from tfdeploy.runtime.calibrate.processes import Turns
    from tfdeploy.runtime.start_tensorflow import start_telling

    turns = Turns()
    turns()
    spec = grammar.load(path, common.overrides, allow_python=common.allow_python)
    start_telling(verbose=common.verbose)
    from tfdeploy.runtime.calibrate.measure import measure  # which imports TensorFlow

    found = measure(spec, request, turns)
    answer.write_text(to_json(found), encoding="utf-8")


def _measured(command: list[str], threads: list[int]) -> list[Profile] | None:
    """Measure with each number of threads; return None if a process failed, and has said why."""
    from tfdeploy.runtime.calibrate.processes import measure_in_processes

    numbers = " and ".join(map(str, threads))
    with busy(f"measuring with {numbers} {'thread' if threads == [1] else 'threads'} for each op"):
        return measure_in_processes(command, threads)


def _summary(one: Profile, wide: Profile | None = None) -> list[str]:
    """Return lines that say what was measured."""
    from compiler.figures import duration, plural

    kinds = sum(each.alone > 0 and each.ops > 0 for each in one.ops)
    times = [(one.serial, "on one thread")]
    if wide is not None:
        times.append((one.parallel, f"with {one.machine.cores} ops at a time"))
        times.append((wide.serial, f"with {one.machine.cores} threads for each op"))
    took = ", ".join(f"{duration(each)} {words}" for each, words in times if each is not None)
    return [
        f"{one.machine.processor}, {plural(one.machine.cores, 'core')}, TensorFlow {one.machine.tensorflow}",
        f"a step took {took}",
        f"{plural(kinds, 'kind')} of ops; starting an op takes {duration(one.op_start)}",
    ]


def _disturbed(share: float | None) -> list[str]:
    """Return a line that says how busy the machine was with other work, if it was."""
    from tfdeploy.runtime.calibrate.processes import BUSY

    if share is None or share < BUSY:
        return []
    said = f"other work had {share:.0%} of the processors meanwhile, and is in these times"
    return [f"{said}: calibrate again when nothing else runs"]
