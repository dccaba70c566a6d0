"""`tfdeploy evaluate`: the scores of a trained model on the splits of its spec."""

from __future__ import annotations

import click

from tfdeploy.cli.common import Common
from tfdeploy.cli.faults import show
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, offer
from tfdeploy.cli.terminal import say


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.option(
    "--checkpoint",
    metavar="STEP|PATH",
    help="The checkpoint; default: the best one if the spec asks for it, else the newest.",
)
@click.option(
    "--split",
    "splits",
    multiple=True,
    type=click.Choice(["train", "validation", "test"]),
    help="On which split; may be given several times. Default: validation and test.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@click.option(
    "--emulate", is_flag=True, help="Make every declared device a logical CPU device of this process."
)
@common_options
def command(
    common: Common,
    spec: str,
    *,
    checkpoint: str | None,
    splits: tuple[str, ...],
    as_json: bool,
    emulate: bool,
) -> int:
    """Evaluate the model that SPEC has trained, with the averaged weights if there are any."""
    loaded = read_spec(spec, common)
    from tfdeploy import api

    found = api.evaluate(
        loaded,
        splits=splits or None,
        checkpoint=checkpoint,
        emulate=emulate,
        verbose=common.verbose,
        warn=lambda warning: show([warning], common),
    )
    if as_json:
        say(found.to_json())
    else:
        from tfdeploy.runtime.show.words import evaluation_lines

        for line in evaluation_lines(found):
            say(line)
    return 0
