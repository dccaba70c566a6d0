"""`tfdeploy suggest`: placement rules that might be better than those of a spec."""

from __future__ import annotations

import click

from dsl.diagnostics import SpecError
from tfdeploy.cli.common import Common
from tfdeploy.cli.files import read, replace_file
from tfdeploy.cli.options import common_options, offer, profile_option
from tfdeploy.cli.terminal import say

GOALS = ("step_time", "memory", "balance")
DOES_NOT_FIT = 1


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@click.option(
    "--for",
    "goal",
    type=click.Choice(GOALS),
    default=GOALS[0],
    help="What is to be low: the time of a step (the default), the memory of the fullest device, or the "
    "bytes of variables and slots on the device that holds the most.",
)
@click.option(
    "--groups",
    type=click.IntRange(min=2),
    metavar="N",
    help="Also try clones that have N devices each, over which the layers are split.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("--write", is_flag=True, help="Write the rules into SPEC; all else in it stays as it is.")
@profile_option
@common_options
def command(
    common: Common,
    spec: str,
    *,
    goal: str,
    groups: int | None,
    as_json: bool,
    write: bool,
    profile: str | None,
) -> int:
    """Search for placement rules of SPEC that are better, and print them.

    Each placement that is tried is built and forecast as by `plan`; nothing runs. What is printed is never
    worse than the rules of the spec. Exits with 1 if nothing that was tried fits the memory of the devices.
    """
    reading = read(spec, common)
    if reading.spec is None:
        raise SpecError(reading.diagnostics)
    from compiler.suggest.figures import Goal, NoForecastError
    from compiler.suggest.text import suggestion_json, suggestion_text
    from compiler.time.profile import find_profile
    from tfdeploy.suggesting import Suggester

    machine = find_profile(reading.spec.path, profile)
    suggester = Suggester(
        reading.spec,
        reading.trees[-1],
        Goal(goal),
        None if machine is None else machine.profile,
        common.overrides,
        common.allow_python,
        common.verbose,
        groups,
    )
    try:
        found, text = suggester.run()
    except NoForecastError as error:
        message = (
            "the time of a step cannot be forecast, because the `kind` of the devices is not that of their "
            "GPUs; name theirs, or give --for memory or --for balance"
        )
        raise click.UsageError(message) from error
    say(suggestion_json(found) if as_json else suggestion_text(found), end="")
    if write and found.improved:
        replace_file(spec, text)
        say(f"{spec}: rules written", err=as_json)
    return DOES_NOT_FIT if found.after.missing else 0
