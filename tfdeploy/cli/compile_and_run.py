"""`tfdeploy compile-and-run`, which is also `compile-and-run`: train what a spec declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from tfdeploy.cli.options import Common, common_options
from tfdeploy.cli.reading import read_spec

if TYPE_CHECKING:
    from tfdeploy.runtime.result import Result


@click.command()
@click.argument("spec")
@click.option(
    "--emulate", is_flag=True, help="Make every declared device a logical CPU device of this process."
)
@click.option(
    "--resume",
    type=click.Choice(["auto", "never", "must"]),
    default="auto",
    show_default=True,
    help="Go on from the newest checkpoint: where there is one, never (start again), or by all means.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON, the last line of the output."
)
@click.option(
    "--profile",
    type=click.IntRange(min=1),
    metavar="STEPS",
    help="Profile so many steps, for TensorBoard and for Chrome's trace viewer, into profile/.",
)
@common_options
def command(
    common: Common,
    spec: str,
    *,
    emulate: bool,
    resume: Literal["auto", "never", "must"],
    as_json: bool,
    profile: int | None,
) -> int:
    """Train SPEC: compile it to a multi-tower graph, run it, and leave a model in its run directory."""
    loaded = read_spec(spec, common)
    if profile is not None and loaded.update.mode == "async":
        raise click.UsageError("--profile needs clones that make their steps together, not `mode = async`")
    from tfdeploy.runtime import start
    from tfdeploy.runtime.console import make_reporter
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.stop import Interrupted, Terminated

    def show(result: Result | None) -> None:
        if as_json and result is not None:
            click.echo(result.to_json())

    reporter = make_reporter(color=common.color_output, color_errors=common.color_errors)
    try:
        result = start.run(
            loaded,
            RunOptions(
                emulate, resume, common.verbose, own_process=True, profile=profile or 0, reporter=reporter
            ),
        )
    except (Interrupted, Terminated) as end:
        show(end.result)
        raise
    show(result)
    return 0
