"""`tfdeploy why`: which rule, on which line, or which default put an op or a variable where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dsl.diagnostics import RunError
from dsl.errors.plan import nothing_named
from tfdeploy.cli.building import Builder
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.files import read_spec
from tfdeploy.cli.options import common_options, offer, profile_option

if TYPE_CHECKING:
    from compiler.mapping.explanation import Explained
    from compiler.time.forecast import StepForecast
    from dsl import ir


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
    from compiler.report.view import Ink
    from compiler.report.why import why_text, why_time
    from tfdeploy.runtime.many_clones import NothingNamedError

    try:
        found, time = _explained(loaded, common, name, profile)
    except NothingNamedError as fault:
        raise RunError(nothing_named(name=name, nearest=fault.nearest)) from fault
    say(why_text(found.found, Ink(common.color_output)), color=common.color_output, end="")
    if time is not None:
        say(f"\n{why_time(found.timed, time)}", end="")
    return 0


def _explained(
    spec: ir.Spec, common: Common, name: str, profile: str | None
) -> tuple[Explained, StepForecast | None]:
    """Return what explains the places of the things with a name, and the forecast of a step if there is one.

    Raises:
        NothingNamedError: If the name names nothing.
    """
    from compiler.kinds.deployment.grid import NotAlikeError
    from tfdeploy.runtime.many_clones import explain_by_kinds, explain_graph

    builder = Builder(common, profile=profile)
    many = builder.many(spec)
    because = many if isinstance(many, str) else ""
    if not isinstance(many, str):
        try:
            return explain_by_kinds(many, name), many.time
        except NotAlikeError as fault:
            because = str(fault)
    built = builder.build(spec, timed=True, because=because)
    return explain_graph(built.compiled, name), built.time
