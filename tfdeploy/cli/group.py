"""The group of commands; a command's module is imported only when the command is called."""

from __future__ import annotations

from importlib import import_module

import click

from dsl.diagnostics import RunError
from dsl.files.regular import scheme_of
from dsl.suggest import nearest
from tfdeploy.cli.options import option

COMMANDS: dict[str, str] = {
    # name: one line for the list of commands, in the order in which `--help` shows them
    "init": "Write a spec to begin with.",
    "check": "Find every error in specs, without TensorFlow.",
    "fmt": "Format specs in the one style.",
    "show": "Print a spec with includes, overrides and defaults filled in.",
    "plan": "Build the graph, run nothing, and print the placement map.",
    "why": "Show which rule placed an op or a variable.",
    "calibrate": "Measure what the ops of a spec cost here, for forecasts of time.",
    "diff": "Compare two placements: what moved, and the bytes of devices and links.",
    "suggest": "Search for better placement rules.",
    "compile": "Write the graph, its placement map and its spec to files.",
    "compile-and-run": "Train a spec.",
    "serve": "Run the server of one task of a cluster.",
    "status": "Show whether every task of a cluster is running.",
    "scale": "Change the number of tasks of a cluster that trains.",
    "verify": "Train every layout of a spec a few steps and compare the weights.",
    "evaluate": "Evaluate the model that a spec has trained.",
    "predict": "Predict for a file of examples.",
    "export": "Write a trained model as a SavedModel, or manifests for Kubernetes.",
    "sweep": "Train a spec with many settings, and compare what they come to.",
    "runs": "List and compare runs: their scores and the differences of their specs.",
    "plot": "Draw the curves of runs.",
    "explain": "Explain the code of an error.",
    "doctor": "Say what this machine has, and what would fail on it.",
    "completion": "Print what lets a shell complete command lines, or install it.",
    "lsp": "Serve editors: errors, completion and more while a spec is written.",
}
"""Every command there is."""

_SHARED = {
    "cluster": ("scale", "serve", "status"),
    "export": ("compile", "export"),
    "plan": ("diff", "plan", "why"),
    "runs": ("plot", "runs"),
    "texts": ("check", "fmt", "show"),
    "trained": ("evaluate", "predict"),
}
"""The commands of files that several share, in which the function of `fmt` is `fmt_command`."""

_FILES = {name: file for file, names in _SHARED.items() for name in names}


def load(name: str) -> click.Command:
    """Import the module of command `name` and return the command."""
    file, function = name.replace("-", "_"), "command"
    if name in _FILES:
        file, function = _FILES[name], f"{file}_command"
    command: click.Command = getattr(import_module(f"tfdeploy.cli.commands.{file}"), function)
    return command


class CommandGroup(click.Group):
    """A group that knows its commands by name and loads them late."""

    def list_commands(self, _: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command called `cmd_name`, or None if there is none."""
        return load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of `args`; for an unknown one name the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(_unknown(name))
        _require_paths(args[1:])
        return super().resolve_command(ctx, args)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        if COMMANDS:
            with formatter.section("Commands"):
                formatter.write_dl(list(COMMANDS.items()))


def _unknown(name: str) -> str:
    near = nearest(name, COMMANDS)
    hint = f"; there is a command with a similar name: {near}" if near else ""
    return f"there is no command {name!r}{hint}"


def _require_paths(args: list[str]) -> None:
    """Raise RunError for an address such as `gs://bucket/x`: no command takes one."""
    for each in args:
        option, equals, value = each.partition("=") if each.startswith("--") else ("", "", each)
        if scheme_of(value) is not None:
            from dsl.errors import types as errors

            raise RunError(errors.address(f"`{option}`" if equals else "this command", value, None))


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from tfdeploy import __version__

        click.echo(f"tfdeploy {__version__}")
        ctx.exit()


@click.group(
    cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@option("--version", "Show the version.", is_flag=True, is_eager=True, expose_value=False, callback=_version)
def tfdeploy() -> None:
    """Train the model that a spec declares, with its devices, clones and placement."""
