"""`tfdeploy why`: which rule, on which line, or which default put an op or a variable where it is."""

from __future__ import annotations

import click

from tfdeploy.cli.common import Common
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, offer
from tfdeploy.cli.terminal import say


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.argument("name", shell_complete=offer("names"))
@common_options
def command(common: Common, spec: str, name: str) -> int:
    """Show which rule or default of SPEC placed NAME, and which rules it overrode.

    NAME is an op, a variable, a layer or a glob such as 'clone_*/conv1/*', or a message of TensorFlow that
    names ops.
    """
    loaded = read_spec(spec, common, stdin=True)
    from compiler.report.text.why_text import why_text
    from compiler.report.view import Ink
    from tfdeploy.cli.building import build

    compiled = build(loaded, common).compiled
    from compiler.graph.inspect.why import (  # after TensorFlow has been started
        explain_placement,
        suggest_names,
    )

    found = explain_placement(compiled, name)
    if not found:
        nearest = ", ".join(suggest_names(compiled, name))
        raise click.ClickException(f"{name!r} names no op or variable; the nearest names are {nearest}")
    say(why_text(found, Ink(common.color_output)), color=common.color_output, end="")
    return 0
