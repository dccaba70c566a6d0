"""`tfdeploy why`: which rule, on which line, or which default put an op or a variable where it is."""

from __future__ import annotations

import click

from dsl.diagnostics import RunError
from dsl.errors.planning.maps import nothing_named
from tfdeploy.cli.common import Common
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, offer, profile_option
from tfdeploy.cli.terminal import say


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.argument("name", shell_complete=offer("names"))
@profile_option
@common_options
def command(common: Common, spec: str, name: str, *, profile: str | None) -> int:
    """Show which rule or default of SPEC placed NAME, and which rules it overrode.

    If there is a profile of the machine, it also says whether NAME is on the critical path of a step.

    NAME is an op, a variable, a layer or a glob such as 'clone_*/conv1/*', or a message of TensorFlow that
    names ops.
    """
    loaded = read_spec(spec, common, stdin=True)
    from compiler.report.text.why_text import why_text
    from compiler.report.view import Ink
    from tfdeploy.cli.building import build

    built = build(loaded, common, timed=True, profile=profile)
    compiled = built.compiled
    from compiler.graph.inspect.mapping.explain import (  # after TensorFlow has been started
        explain_placement,
        suggest_names,
    )

    found = explain_placement(compiled, name)
    if not found:
        raise RunError(nothing_named(name, suggest_names(compiled, name)))
    say(why_text(found, Ink(common.color_output)), color=common.color_output, end="")
    if built.time is not None:
        from compiler.report.text.why_time import why_time

        say(f"\n{why_time(found, built.time)}", end="")
    return 0
