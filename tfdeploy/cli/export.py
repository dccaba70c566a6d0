"""`tfdeploy export`: a trained model in a form that other programs serve."""

from __future__ import annotations

from pathlib import Path

import click

from tfdeploy.cli.faults import show
from tfdeploy.cli.options import Common, common_options
from tfdeploy.cli.reading import read_spec


def _new_folder(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    if path.exists():
        raise click.BadParameter(f"{str(path)!r} is there already", ctx, param)
    return path


@click.command()
@click.argument("spec")
@click.option(
    "--saved-model",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    callback=_new_folder,
    metavar="DIR",
    help="The folder to make, which TensorFlow Serving and tf.saved_model.load read.",
)
@click.option(
    "--checkpoint",
    metavar="STEP|PATH",
    help="Which checkpoint; default: the best one where the spec asks for it, else the newest.",
)
@click.option(
    "--emulate", is_flag=True, help="Make every declared device a logical CPU device of this process."
)
@common_options
def command(common: Common, spec: str, *, folder: Path, checkpoint: str | None, emulate: bool) -> int:
    """Write the model that SPEC has trained as a SavedModel, with averaged weights where there are any."""
    loaded = read_spec(spec, common)
    from tfdeploy import api

    api.export(
        loaded,
        folder,
        checkpoint=checkpoint,
        emulate=emulate,
        verbose=common.verbose,
        warn=lambda warning: show([warning], common),
    )
    click.echo(folder)
    return 0
