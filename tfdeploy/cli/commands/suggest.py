"""`tfdeploy suggest`: placement rules that might be better than those of a spec."""

from __future__ import annotations

import click

from dsl.diagnostics import RunError
from dsl.errors.running import cannot_write
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.files import is_unchanged, read, replace_file
from tfdeploy.cli.options import common_options, flag, offer, option, profile_option

GOALS = ("step_time", "memory", "balance")
VARIED = ("clones", "aggregate", "pack", "groups")
DOES_NOT_FIT = 1


def _parts(_: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the parts of a spec that `--vary` names."""
    parts = tuple(dict.fromkeys(each.strip() for each in value.split(",") if each.strip()))
    for each in parts:
        if each not in VARIED:
            raise click.BadParameter(f"{each!r} is not one of {', '.join(VARIED)}", param=option)
    return parts


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@option(
    "--for",
    "goal",
    "What is to be low: the time of a step (the default), the memory of the fullest device, or the "
    "bytes of variables and slots on the device that holds the most.",
    type=click.Choice(GOALS),
    default=GOALS[0],
    show_default=False,
)
@option(
    "--groups",
    "Also try clones that have N devices each, over which the layers are split.",
    type=click.IntRange(min=2),
    metavar="N",
)
@option(
    "--vary",
    "What else may change, with commas: clones, aggregate, pack, groups. A step has as many examples as "
    "before.",
    metavar="PARTS",
    default="",
    callback=_parts,
    show_default=False,
)
@flag("--json", "as_json", "Print what was found as JSON.")
@flag("--write", "Write the rules into SPEC; all else in it stays as it is.")
@profile_option
@common_options
def command(
    common: Common,
    spec: str,
    *,
    goal: str,
    groups: int | None,
    vary: tuple[str, ...],
    as_json: bool,
    write: bool,
    profile: str | None,
) -> int:
    """Search for placement rules of SPEC that are better, and print them.

    The graph of the spec is built once, and other placements are forecast from its step; nothing runs. Of
    many clones that are alike, graphs of a few are built for each placement. What is printed is never worse
    than the rules of the spec. Exits with 1 if nothing that was tried fits the
    memory of the devices.
    """
    reading = read(spec, common)
    loaded = reading.require()
    from compiler.suggest.outcome import Goal, NoForecastError
    from compiler.suggest.text import suggestion_json, suggestion_text
    from compiler.time.profile import find_profile
    from tfdeploy.suggesting.suggester import CannotEditError, Suggester
    from tfdeploy.suggesting.trials import Trials

    machine = find_profile(loaded.path, profile)
    trials = Trials(
        loaded,
        reading.trees[0],
        Goal(goal),
        machine,
        common.overrides,
        common.allow_python,
        common.verbose,
    )
    try:
        found, text = Suggester(trials, groups, vary).run()
    except NoForecastError as error:
        message = (
            "the time of a step cannot be forecast, because the `kind` of the devices is not that of their "
            "GPUs; name theirs, or give --for memory or --for balance"
        )
        raise click.UsageError(message) from error
    except CannotEditError as error:
        raise click.UsageError(str(error)) from error
    say(suggestion_json(found) if as_json else suggestion_text(found), end="")
    if write and found.improved:
        if not is_unchanged(reading.trees[0].source):
            raise RunError(cannot_write(path=spec, reason="it has been changed since it was read"))
        replace_file(spec, text)
        say(f"{spec}: rules written", err=as_json)
    return DOES_NOT_FIT if found.after.missing else 0
