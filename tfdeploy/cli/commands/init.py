"""`tfdeploy init`: a spec to begin with."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import frozen

from dsl.files.regular import as_argument
from dsl.suggest import nearest
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.options import common_options, flag, offer, option
from tfdeploy.own_process import interrupted_by_system
from tfdeploy.progress import announce, busy
from tfdeploy.templates import ENDING, START, Template, templates

if TYPE_CHECKING:
    from tfdeploy.onramp.found import Found
    from tfdeploy.onramp.tabular import Header


MOST_DEVICES = 4096


def _devices(ctx: click.Context, param: click.Parameter, written: str | None) -> dict[str, int]:
    """Read `gpu=2` or `gpu=2,cpu=1` (a callback of click)."""
    found = {}
    for each in written.split(",") if written is not None else ():
        kind, _, number = each.strip().partition("=")
        if kind not in {"gpu", "cpu"} or not number.isdecimal() or not 1 <= int(number) <= MOST_DEVICES:
            raise click.BadParameter(f"{each!r} is not of the form gpu=2 or cpu=2", ctx, param)
        found[kind] = int(number)
    return found


@click.command()
@click.argument("spec", required=False, type=click.Path(path_type=Path), metavar="[SPEC]")
@option(
    "--template",
    "name",
    "The template; `--list` names them.",
    default=START,
    metavar="NAME",
    shell_complete=offer("template_names"),
)
@option(
    "--from",
    "source",
    "A Keras model to write a spec from: a .keras or .h5 file, or module:name.",
    metavar="MODEL",
)
@option(
    "--data",
    "Examples to write a spec for: CSV, npz, TFRecord, Parquet or Arrow files, or a folder with a "
    "folder of images for each class, or with one of images and one of masks.",
    metavar="FILES",
    type=click.Path(path_type=Path),
)
@option(
    "--masks",
    "With --data: a folder with a mask for each image in the folder of images.",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
)
@option(
    "--header/--no-header",
    "With --data: whether the first row of a CSV file names the columns; default: look at it.",
    default=None,
)
@option(
    "--columns",
    "With --data: the names of the columns of a CSV file without a header, with commas between them.",
    metavar="NAMES",
)
@option("--devices", "With --from: devices, such as gpu=2.", metavar="KIND=N", callback=_devices)
@option(
    "--clones",
    "With --from: how many clones; default: one on each device.",
    type=click.IntRange(1, 100_000),
    metavar="N",
)
@flag("--list", "listing", "List the templates, and write nothing.")
@common_options
def command(
    common: Common,
    spec: Path | None,
    *,
    name: str,
    source: str | None,
    data: Path | None,
    masks: Path | None,
    header: bool | None,
    columns: str | None,
    devices: dict[str, int],
    clones: int | None,
    listing: bool,
) -> int:
    """Write a spec that runs, with made-up data if it reads files, to the file SPEC.

    Without SPEC, the file is called after the template and is put into the current folder. Existing files
    are never replaced.

    With `--from`, the spec says what a Keras model is and how it is trained, and the weights are put beside
    it. The spec is compiled and compared with the model, before and after a step of training, and nothing is
    kept if they differ. Code that a file names is not run without `--allow-python`.

    With `--data`, the spec reads these examples: with `--from` for the inputs of that model, else with a
    first model of what the examples hold.
    """
    if data is None and (masks is not None or header is not None or columns is not None):
        raise click.UsageError("--masks, --header and --columns are for --data")
    if columns is not None and header:
        raise click.UsageError("--columns names the columns of a file without a header")
    named: Header = header if columns is None else tuple(each.strip() for each in columns.split(","))
    examples = None if data is None else _Examples(data, masks, named)
    if source is not None:
        return _from_keras(common, source, examples, spec, devices, clones)
    if devices or clones is not None:
        raise click.UsageError("--devices and --clones are for --from")
    if examples is not None:
        return _from_data(common, examples, spec)
    known = templates()
    if listing:
        say(_listed(known), end="")
        return 0
    if name not in known:
        near = nearest(name, known)
        hint = f"; there is a template with a similar name: {near}" if near else "; `--list` names them"
        raise click.UsageError(f"there is no template {name!r}{hint}")
    from tfdeploy.runtime.records.files import write_new

    target = _target(spec, name)
    template = known[name]
    files = template.files(target)
    write_new({path: text.encode() for path, text in files.items()})
    for path in files:
        say(f"{path}: {template.title}" if path == target else f"{path}: made-up examples")
    _say_next(target)
    return 0


def _target(spec: Path | None, name: str) -> Path:
    target = spec if spec is not None else Path(f"{name}{ENDING}")
    if target.suffix != ENDING:
        raise click.UsageError(f"{str(target)!r} does not end in {ENDING}, as the name of every spec does")
    return target


@frozen
class _Examples:
    """Examples that are to be looked at."""

    path: Path
    masks: Path | None  # the folder of the masks of images; None to find out whether there is one
    header: Header  # whether the first row of CSV files names the columns, or their names; None to find out

    def found(self) -> Found:
        """Return what they hold; raises RunError."""
        from tfdeploy.onramp.looking import look

        with busy(f"looking at {self.path}"):
            return look(self.path, header=self.header, masks=self.masks)


def _from_data(common: Common, data: _Examples, spec: Path | None) -> int:
    """Write a spec with a first model of what some examples hold."""
    stem = data.path.name.split(".")[0].replace("*", "") or "spec"
    target = _target(spec, stem)
    from tfdeploy.runtime.records.files import require_new, write_new
    from tfdeploy.runtime.start_tensorflow import start_telling

    require_new([target])

    start_telling(verbose=common.verbose)
    from tfdeploy.onramp.examples import first_spec

    found = data.found()
    text = first_spec(found, target.stem, target.parent)
    write_new({target: text.encode()})
    say(f"{target}: {text.count(chr(10))} lines, for the {found.count:,} examples in {found.path}")
    for each in found.lost:
        say(f"note: {each}")
    _say_next(target)
    return 0


def _from_keras(
    common: Common,
    source: str,
    data: _Examples | None,
    spec: Path | None,
    devices: dict[str, int],
    clones: int | None,
) -> int:
    """Write the spec of a Keras model, and its weights beside it."""
    stem = source.rpartition(":")[2] if ":" in source else Path(source).stem
    target = _target(spec, stem)
    weights = target.with_name(f"{target.stem}.weights.h5")
    from tfdeploy.runtime.records.files import require_new, write_new
    from tfdeploy.runtime.start_tensorflow import start_telling

    require_new((target, weights))

    start_telling(verbose=common.verbose)
    from tfdeploy.onramp.convert import convert
    from tfdeploy.onramp.reading import read_model

    examples = None if data is None else data.found()
    module, colon, _ = source.partition(":")
    if colon:
        announce(f"importing {module}")
    with busy(f"reading {source}", plain=not colon), interrupted_by_system():
        found = read_model(source, allow_python=common.allow_python)
    with busy("writing the spec, and comparing it with the model"):
        made = convert(
            found.model,
            found.config,
            source=source,
            stem=target.stem,
            base=target.parent,
            devices=devices,
            clones=clones,
            weights=weights.name,
            found=examples,
            folder=target.parent,
        )
    words = {target.with_name(name): each for name, each in made.files.items()}
    write_new({weights: made.weights, **words, target: made.text.encode()})
    say(f"{target}: {made.text.count(chr(10))} lines, from {source}")
    say(f"{weights}: its weights, from which training starts")
    for path, lines in words.items():
        count = lines.count(b"\n")
        say(f"{path}: a vocabulary of {count:,} words, which it reads")
    proof = made.proof
    say(f"The same as the model: the largest difference of an output is {proof.outputs:.1e} of its size,")
    if proof.step is not None:
        wide = f", in float64, because rounding makes it {proof.rounded:.1e} else" if proof.rounded else ""
        say(f"and that of a weight after a step of training {proof.step.largest:.1e}{wide}.")
    else:
        say(f"but no step of training was compared: {proof.untried}.")
    _say_next(target, code="python(" in made.text)
    return 0


def _say_next(target: Path, *, code: bool = False) -> None:
    say("What to do with it:")
    for verb in ("check", "plan", "compile-and-run"):
        say(f"  tfdeploy {verb} {_argument(target)}{' --allow-python' if code else ''}")


def _argument(path: Path) -> str:
    """Return a path as a shell reads it, also if it begins like an option."""
    from shlex import quote

    return quote(as_argument(str(path)))


def _listed(known: dict[str, Template]) -> str:
    width = max(map(len, known))
    parts = []
    for group, members in groupby(known.values(), key=lambda each: each.group):
        lines = [f"  {each.name:<{width}}  {each.title}" for each in members]
        parts.append("\n".join([f"{group}:", *lines]))
    return "\n\n".join(parts) + "\n"
