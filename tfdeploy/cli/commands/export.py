"""`tfdeploy compile` and `tfdeploy export`: files for other programs.

These are the graph of a spec, a trained model for programs that serve it, or tasks for Kubernetes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from attrs import evolve
from click.core import ParameterSource

from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import cluster as errors
from dsl.files.regular import as_argument
from dsl.values import EXAMPLES, quantity
from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.faults import telling
from tfdeploy.cli.files import STDOUT, read_spec
from tfdeploy.cli.options import (
    checkpoint_option,
    common_options,
    emulate_option,
    flag,
    force_option,
    offer,
    option,
)


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@option(
    "--out",
    "The folder for graph.pb, placement.json and spec.tfdeploy.",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
)
@emulate_option("one process")
@force_option
@common_options
def compile_command(common: Common, spec: str, *, out: Path, emulate: bool, force: bool) -> int:
    """Build the graph of SPEC and write it to DIR; nothing is run and no data is read."""
    loaded = read_spec(spec, common)
    from tfdeploy.cli.building import Builder
    from tfdeploy.runtime.records.files import GRAPH_FILES, InputFiles, require_free_folder
    from tfdeploy.runtime.start_tensorflow import start_telling

    reading = InputFiles.of(loaded)
    for name in GRAPH_FILES:
        reading.require_not_input(out / name)
    require_free_folder(out, force=force)
    start_telling(verbose=common.verbose)  # quietly, before conditions on a graph import TensorFlow
    from compiler.conditions import needs_memory, needs_time, require_expectations

    built = Builder(common, emulate).build(loaded, forecast=needs_memory(loaded) or needs_time(loaded))
    from compiler.graph.finished import in_graph  # after TensorFlow has been started, quietly
    from tfdeploy.runtime.trained.trained import write_graph

    require_expectations(built.compiled, built.memory, built.map_time())
    for path in write_graph(in_graph(built.compiled), built.placement(), out):
        say(path)
    return 0


_LABEL = (
    r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
    "small letters, digits and hyphens, from a letter on, at most 63",
)
_SUBDOMAIN = (r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", "small letters, digits, hyphens and dots")
NAMES = {"name": _LABEL, "namespace": _LABEL, "runs": _SUBDOMAIN, "data": _SUBDOMAIN}
"""What the names of objects are made of, as a pattern and in words, by option."""
ONLY_MODEL = ("checkpoint", "emulate")
"""The options that mean nothing for manifests."""
ALSO_SLURM = ("name", "out")
"""The options of manifests that also go with a batch script."""


def _new_folder(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and str(path) != STDOUT and path.exists():
        raise click.BadParameter(f"{str(path)!r} is there already", ctx, param)
    return path


def _name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what Kubernetes does not take as the name of such an object: the API would, but much later."""
    import re

    pattern, words = NAMES[param.name or ""]
    if value is not None and not re.fullmatch(pattern, value):
        raise click.BadParameter(f"{value!r} is not made of {words}", ctx, param)
    return value


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Return the bytes of a size as specs have it."""
    if value is None:
        return None
    number, unit = re.fullmatch(r"([\d.]*)(.*)", value, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        found = quantity(float(number), unit)
    except (ValueError, KeyError):
        found = None
    if found is None or found.dimension != "bytes" or found.amount < 1:
        raise click.BadParameter(f"{value!r} is not a size, as in {EXAMPLES['bytes']}", ctx, param)
    return int(found.amount)


def _time(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what Slurm does not take as a time, as `sbatch` would later, and what leaves none to train."""
    import re
    from operator import mul

    found = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9}(?::\d{1,2}){0,2})", value, re.ASCII)
    if found is None:
        raise click.BadParameter(f"{value!r} is not of the form HOURS:MINUTES:SECONDS", ctx, param)
    days, parts = found[1], [int(each) for each in found[2].split(":")]
    # Without days, a number alone is of minutes, and two are of minutes and seconds.
    units = (3600, 60, 1) if days is not None or value.count(":") > 1 else (60, 1)
    seconds = int(days or 0) * 24 * 3600 + sum(map(mul, parts, units))
    if 0 < seconds <= SECONDS_TO_END:  # no time at all is no limit
        reason = f"a job gets the signal to end {SECONDS_TO_END} seconds before the end of its time"
        raise click.BadParameter(f"{value!r} leaves no time to train: {reason}", ctx, param)
    return value


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@option(
    "--saved-model",
    "folder",
    "A new folder for the trained model, which TensorFlow Serving and tf.saved_model.load read.",
    type=click.Path(path_type=Path),
    callback=_new_folder,
    metavar="DIR",
)
@checkpoint_option
@emulate_option()
@flag("--kubernetes", "Write manifests that run the tasks of the spec's cluster.")
@flag("--slurm", "Write the batch script that runs the tasks under Slurm.")
@option(
    "--time",
    "The limit of a job's time under Slurm, after which another job goes on.",
    metavar="H:M:S",
    default="24:00:00",
    callback=_time,
)
@option("--image", "A container image in which tfdeploy is installed.", metavar="IMAGE")
@option("--runs", "The volume claim for run directories.", metavar="CLAIM", callback=_name)
@option(
    "--data",
    "The volume claim with the data; default: the data is in the image.",
    metavar="CLAIM",
    callback=_name,
)
@option(
    "--kind",
    "Plain Jobs, a TrainJob for Kubeflow Trainer 2, or a TFJob for the operator before it (legacy).",
    type=click.Choice(["Job", "TrainJob", "TFJob"]),
    default="Job",
)
@option("--name", "The name of the run; default: the spec's.", metavar="NAME", callback=_name)
@option(
    "--namespace",
    "The namespace; default: that of whoever applies the manifests.",
    metavar="NAME",
    callback=_name,
)
@option(
    "--port",
    "The port at which servers listen in their pods.",
    type=click.IntRange(1024, 65535),
    default=2222,
)
@option(
    "--memory",
    "The memory that each pod asks for; default: what it needs by the forecast of a step, and a margin.",
    metavar="SIZE",
    callback=_size,
)
@option(
    "--out",
    "A new folder for the manifests, or - for standard output.",
    type=click.Path(path_type=Path),
    default=STDOUT,
    callback=_new_folder,
    metavar="DIR|-",
)
@common_options
def export_command(
    common: Common,
    /,
    spec: str,
    *,
    folder: Path | None,
    checkpoint: str | None,
    emulate: bool,
    kubernetes: bool,
    slurm: bool,
    time: str,
    **place: Any,
) -> int:
    """Write files of SPEC for other programs.

    With --saved-model this is the model that SPEC has trained, with averaged weights if there are any. With
    --kubernetes, --image and --runs these are manifests that run the tasks of its cluster, and with --slurm a
    batch script that does.
    """
    if (folder is not None) + kubernetes + slurm != 1:
        raise click.UsageError("export needs one of --saved-model DIR, --kubernetes and --slurm")
    if kubernetes:
        _refuse_given(ONLY_MODEL, "--saved-model")
        _refuse_given(("time",), "--slurm")
        return _write_manifests(common, spec, **place)
    if slurm:
        _refuse_given(ONLY_MODEL, "--saved-model")
        _refuse_given([each for each in place if each not in ALSO_SLURM], "--kubernetes")
        return _write_script(common, spec, time, name=place["name"], out=place["out"])
    assert folder is not None
    _refuse_given(("time",), "--slurm")
    _refuse_given([each for each in place if each not in ALSO_SLURM], "--kubernetes")
    _refuse_given(ALSO_SLURM, "--kubernetes or --slurm")
    loaded = read_spec(spec, common)
    from tfdeploy import api

    api.export(loaded, folder, checkpoint=checkpoint, emulate=emulate, **telling(common))
    say(folder)
    return 0


def _refuse_given(names: Iterable[str], other: str) -> None:
    """Raise UsageError for an option of the command line that belongs to the other way of exporting."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} goes with {other}")


def _write_script(common: Common, path: str, time: str, *, name: str | None, out: Path) -> int:
    spec = _checked(common, path)
    options = [*common.settings, *common.flags]
    text = batch_script(spec, path, name=name or Path(path).stem, time=time, options=options)
    if str(out) == STDOUT:
        write_result(text)
        return 0
    script = f"{name or Path(path).stem}.sh"
    _write(out, {script: text})
    say(out / script)
    return 0


def _checked(common: Common, path: str) -> ir.Spec:
    """Return a spec without an error that could be found without TensorFlow."""
    spec = read_spec(path, common)
    from compiler.checks import check_spec

    wrong = [each for each in check_spec(spec) if each.is_error]
    if wrong:
        raise SpecError(wrong)
    return spec


def _requests(spec: ir.Spec, given: int | None, *, verbose: bool) -> Mapping[str, int]:
    """Return the bytes that the pods of each job ask for: those that are given, or those of a forecast."""
    from tfdeploy.kubernetes.deployment import CLIENT, requests_of

    if given is not None:
        return dict.fromkeys((*(job.name for job in spec.devices.jobs), CLIENT), given)
    from tfdeploy.looking import map_placement
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    start_tensorflow(verbose=verbose)
    return requests_of(spec, map_placement(spec))


def _write_manifests(common: Common, path: str, *, out: Path, memory: int | None, **place: Any) -> int:
    for needed in ("image", "runs"):
        if not place[needed]:
            raise click.UsageError(f"--kubernetes needs --{needed}")
    spec = _checked(common, path)
    from tfdeploy import kubernetes

    name = place.pop("name") or kubernetes.default_name(spec)
    flags = ("--allow-python",) if common.allow_python else ()
    deployment = kubernetes.Deployment(spec, name=name, flags=flags, **place)
    requests = _requests(spec, memory, verbose=common.verbose)
    found = kubernetes.manifests(evolve(deployment, memory=requests))
    if str(out) == STDOUT:
        write_result(kubernetes.to_yaml(found.values()))
        return 0
    _write(out, {f"{each}.yaml": kubernetes.to_yaml([manifest]) for each, manifest in found.items()})
    say(out)
    return 0


def _write(out: Path, texts: Mapping[str, str]) -> None:
    """Write a new folder with some files."""
    from tfdeploy.runtime.records.files import new_folder

    with new_folder(out) as beside:
        for name, text in texts.items():
            (beside / name).write_text(text, encoding="utf-8", newline="")


# --- the batch script of Slurm ----------------------------------------------------------------------------

SECONDS_TO_END = 120
"""How long before the end of its time a job gets the signal after which it writes a checkpoint."""

_SCRIPT = """\
#!/bin/bash
{directives}

srun --ntasks={tasks} {command}
code=$?

# A job whose time is over, or whose process was killed, goes on from its last checkpoint in another job.
if [ "$code" -ge 128 ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


def batch_script(spec: ir.Spec, path: str, *, name: str, time: str, options: Sequence[str]) -> str:
    """Return the script for `sbatch`; raises SpecError if the spec declares no jobs."""
    jobs = spec.devices.jobs
    if not jobs:
        raise SpecError([errors.nothing_to_deploy(spec.devices.span or spec.span)])
    tasks, gpus = sum(job.tasks for job in jobs), max(job.gpu for job in jobs)
    wanted = {
        "job-name": shlex.quote(" ".join(name.split())),
        "ntasks": tasks,
        "ntasks-per-node": 1,
        **({"gpus-per-node": gpus} if gpus else {}),
        "time": time,
        "signal": f"TERM@{SECONDS_TO_END}",
    }
    directives = [f"--{option}={value}" for option, value in wanted.items()]
    directives += ["--requeue", "--open-mode=append"]
    return _SCRIPT.format(
        directives="\n".join(f"#SBATCH {each}" for each in directives),
        tasks=tasks,
        command=shlex.join(["compile-and-run", as_argument(path), *options]),
    )
