"""The options that every command has."""

from __future__ import annotations

from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

import click
from attrs import fields

from tfdeploy.cli.common import Common
from tfdeploy.cli.faults import guarded
from tfdeploy.own_process import interruptible
from tfdeploy.progress import without_progress

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
Option: TypeAlias = "Callable[[Callable[..., Any]], Callable[..., Any]]"


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read the values of an option such as `--set PATH=VALUE` (a callback of click)."""
    found = []
    for value in values:
        path, equals, text = value.partition("=")
        if not equals or not path.strip():
            raise click.BadParameter(f"{value!r} is not of the form PATH=VALUE", ctx, param)
        found.append((path.strip(), text))
    return tuple(found)


def offer(what: str) -> Callable[[click.Context, click.Parameter, str], Any]:
    """Return what click asks for completions: a function of `completion.py`, imported when it is called."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        from tfdeploy.cli import completion

        del param
        return getattr(completion, what)(ctx, incomplete)

    return complete


def set_option(name: str, parameter: str, words: str) -> Option:
    """Return an option that replaces attributes of a spec."""
    return click.option(
        name,
        parameter,
        multiple=True,
        metavar="PATH=VALUE",
        callback=pairs,
        shell_complete=offer("overrides"),
        help=words,
    )


def file_option(name: str, words: str, metavar: str = "FILE") -> Option:
    """Return an option that names a file."""
    return click.option(name, metavar=metavar, shell_complete=offer("files"), help=words)


def emulate_option(process: str = "this process") -> Option:
    """Return the option of commands that can do without the devices of a spec."""
    return click.option(
        "--emulate", is_flag=True, help=f"Make every declared device a logical CPU device of {process}."
    )


_OPTIONS = (
    set_option(
        "--set", "overrides", "Replace an attribute, such as clones.count=4; may be given several times."
    ),
    click.option("--allow-python", is_flag=True, help="Let the spec load code with python(...)."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colour the output; auto means on a terminal.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show more, including TensorFlow's own messages."),
    click.option(
        "-q", "--quiet", is_flag=True, help="Show errors and the last summary only: no progress, no warnings."
    ),
    click.option("--debug", is_flag=True, help="Show a traceback when tfdeploy itself fails."),
)


force_option = click.option(
    "--force", is_flag=True, help="Replace existing files even if this command has not written them."
)
"""The option of commands that write files of the user's choice."""


checkpoint_option = click.option(
    "--checkpoint",
    metavar="STEP|PATH",
    help="The checkpoint; default: the best one if the spec asks for it, else the newest.",
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
