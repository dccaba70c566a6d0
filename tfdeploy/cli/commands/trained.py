"""`tfdeploy evaluate` and `tfdeploy predict`: how good a trained model is, and what it says of examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dsl.ir import SPLITS
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.faults import telling
from tfdeploy.cli.files import read_spec
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
@checkpoint_option
@option(
    "--split",
    "splits",
    "On which split; may be given several times. Default: validation and test.",
    multiple=True,
    type=click.Choice(SPLITS),
)
@flag("--json", "as_json", "Print the scores as JSON.")
@emulate_option()
@common_options
def evaluate_command(
    common: Common, /, spec: str, *, splits: tuple[str, ...], as_json: bool, **chosen: Any
) -> int:
    """Evaluate the model that SPEC has trained, with the averaged weights if there are any."""
    loaded = read_spec(spec, common)
    from tfdeploy import api

    found = api.evaluate(loaded, splits=splits or None, **chosen, **telling(common))
    if as_json:
        say(found.to_json())
    else:
        from tfdeploy.runtime.show.reporting import evaluation_lines

        for line in evaluation_lines(found):
            say(line)
    return 0


def _data_file(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    from tfdeploy.api import TABLES

    if path.suffix not in TABLES:
        raise click.BadParameter(f"{str(path)!r} is neither a .csv nor a .npz file", ctx, param)
    return path


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@option(
    "--input",
    "examples",
    "The examples: a .csv or .npz file, read as the split's own source is.",
    type=click.Path(path_type=Path),
    required=True,
    callback=_data_file,
    metavar="FILE",
)
@option(
    "--output",
    "predictions",
    "The file for the predictions: .csv or .npz.",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=_data_file,
    metavar="FILE",
)
@checkpoint_option
@option(
    "--split",
    "The split whose transforms are applied; default: test, else validation, else train.",
    type=click.Choice(SPLITS),
)
@emulate_option()
@force_option
@common_options
def predict_command(common: Common, /, spec: str, *, examples: Path, predictions: Path, **chosen: Any) -> int:
    """Write what the model that SPEC has trained predicts for every example of a file."""
    loaded = read_spec(spec, common)
    from tfdeploy import api

    count = api.predict(loaded, examples, predictions, **chosen, **telling(common))
    say(f"{predictions}: {count:,} predictions")
    return 0
