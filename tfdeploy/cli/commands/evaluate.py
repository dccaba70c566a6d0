"""`tfdeploy evaluate`: the scores of a trained model on the splits of its spec."""

from __future__ import annotations

from typing import Any

import click

from tfdeploy.cli.common import Common, say
from tfdeploy.cli.faults import telling
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import checkpoint_option, common_options, emulate_option, offer


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@checkpoint_option
@click.option(
    "--split",
    "splits",
    multiple=True,
    type=click.Choice(["train", "validation", "test"]),
    help="On which split; may be given several times. Default: validation and test.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@emulate_option()
@common_options
def command(common: Common, /, spec: str, *, splits: tuple[str, ...], as_json: bool, **chosen: Any) -> int:
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
