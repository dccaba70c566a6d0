"""The options that every command has."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias

import click
from attrs import fields

from tfdeploy.cli.common import Common
from tfdeploy.cli.faults import guarded
from tfdeploy.own_process import interruptible
from tfdeploy.progress import without_progress

P = ParamSpec("P")
Option: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"


WITHOUT_SETTINGS = ("completion", "doctor", "explain", "fmt", "init", "plot", "runs")
"""Commands for which a spec that they read, if any, is only a text."""


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read the values of an option such as `--set PATH=VALUE` (a callback of click)."""
    if values and ctx.info_name in WITHOUT_SETTINGS:
        raise click.UsageError(f"{param.opts[0]} changes nothing of what {ctx.info_name} does", ctx)
    found = []
    for value in values:
        path, equals, text = value.partition("=")
        if not equals or not path.strip():
            raise click.BadParameter(f"{value!r} is not of the form PATH=VALUE", ctx, param)
        found.append((path.strip(), text))
    return tuple(found)


class Finite(click.FloatRange):
    """A range of numbers, none of which is infinite or NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number that is written."""
        found = super().convert(value, param, ctx)
        return found if math.isfinite(found) else self.fail(f"{found} is no finite number.", param, ctx)


def offer(what: str) -> Callable[[click.Context, click.Parameter, str], Any]:
    """Return what click asks for completions: a function of `completion.py`, imported when it is called."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> Any:
        from tfdeploy.cli import completion

        return getattr(completion, what)(ctx, incomplete)

    return complete


def option(*said: str, **settings: Any) -> Option:
    """Return an option of click, whose default its help shows: its names and, as the last one, the help."""
    *names, words = said
    shown = settings.get("default") is not None
    return click.option(*names, help=words, **{"show_default": shown, **settings})


def flag(*said: str) -> Option:
    """Return an option without a value: its names and, as the last one, the help."""
    return option(*said, is_flag=True)


def set_option(name: str, parameter: str, words: str) -> Option:
    """Return an option that replaces attributes of a spec."""
    of_pairs = {"metavar": "PATH=VALUE", "callback": pairs, "shell_complete": offer("overrides")}
    return option(name, parameter, words, multiple=True, **of_pairs)


def file_option(name: str, words: str, metavar: str = "FILE") -> Option:
    """Return an option that names a file."""
    return option(name, words, metavar=metavar, shell_complete=offer("files"))


def emulate_option(process: str = "this process") -> Option:
    """Return the option of commands that can do without the devices of a spec."""
    return flag("--emulate", f"Make every declared device a logical CPU device of {process}.")


_OPTIONS = (
    set_option(
        "--set", "overrides", "Replace an attribute, such as clones.count=4; may be given several times."
    ),
    flag("--allow-python", "Let the spec load code with python(...)."),
    option(
        "--color",
        "Colour the output; auto means on a terminal.",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=False,
    ),
    flag("-v", "--verbose", "Show more, including TensorFlow's own messages."),
    flag("-q", "--quiet", "Show errors and the last summary only: no progress, no warnings."),
    flag("--debug", "Show a traceback when tfdeploy itself fails."),
)


force_option = flag("--force", "Replace existing files even if this command has not written them.")
"""The option of commands that write files of the user's choice."""


checkpoint_option = option(
    "--checkpoint",
    "The checkpoint; default: the best one if the spec asks for it, else the newest.",
    metavar="STEP|PATH",
)
"""The option of commands that use what a spec has trained."""


profile_option = file_option(
    "--profile",
    "Forecast time by this profile of a machine; default: the one beside the spec, if there is one.",
)
"""The option of commands that forecast the time of a step."""


def common_options(function: Callable[Concatenate[Common, P], int]) -> Callable[..., int]:
    """Give a command's function the common options, as a `Common` in first place, and handle its faults."""

    @wraps(function)
    def command(*args: Any, **options: Any) -> int:
        common = Common(**{each.name: options.pop(each.name) for each in fields(Common)})
        with interruptible(), without_progress() if common.quiet else nullcontext():
            return guarded(common, lambda: function(common, *args, **options))

    decorated: Callable[..., int] = command
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
