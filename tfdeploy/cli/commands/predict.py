"""`tfdeploy predict`: what a trained model says of the examples in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.faults import telling
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import checkpoint_option, common_options, emulate_option, force_option, offer

SUFFIXES = (".csv", ".npz")


def _data_file(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    if path.suffix not in SUFFIXES:
        raise click.BadParameter(f"{str(path)!r} is neither a .csv nor a .npz file", ctx, param)
    return path


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.option(
    "--input",
    "examples",
    type=click.Path(path_type=Path),
    required=True,
    callback=_data_file,
    metavar="FILE",
    help="The examples: a .csv or .npz file, read as the split's own source is.",
)
@click.option(
    "--output",
    "predictions",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    callback=_data_file,
    metavar="FILE",
    help="The file for the predictions: .csv or .npz.",
)
@checkpoint_option
@click.option(
    "--split",
    type=click.Choice(["train", "validation", "test"]),
    help="The split whose transforms are applied; default: test, else validation, else train.",
)
@emulate_option()
@force_option
@common_options
def command(common: Common, /, spec: str, *, examples: Path, predictions: Path, **chosen: Any) -> int:
    """Write what the model that SPEC has trained predicts for every example of a file."""
    loaded = read_spec(spec, common)
    from tfdeploy import api

    count = api.predict(loaded, examples, predictions, **chosen, **telling(common))
    say(f"{predictions}: {count:,} predictions")
    return 0
