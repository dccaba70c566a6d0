"""The page of commands, from the help that each of them has."""

from __future__ import annotations

import inspect

import click

from tfdeploy.cli.group import COMMANDS, load
from tfdeploy.cli.options import common_options
from tools.reference.markdown import NOTICE, table

INTRODUCTION = """\
# Commands

`tfdeploy COMMAND ...`; `compile-and-run SPEC` is also a command of its own. `init`, `check`, `fmt`, `show`, `plot`,
`explain` and `completion` do without TensorFlow and answer at once. Results go to standard output, messages to standard
error.

If starting TensorFlow or building a graph takes longer than a second, a spinner on the terminal says so, or one line if
standard error is no terminal; with `TFDEPLOY_PROGRESS=never` in the environment nothing does.

"""
EXIT_CODES = """\
## Exit codes

| code | meaning |
| --- | --- |
| 0 | fine |
| 1 | the spec has errors or an `expect` does not hold; `fmt --check` or `diff` found a difference; `doctor` found what would fail |
| 2 | wrong usage, a missing file, data or a run that cannot go on, output that cannot be written or that nobody reads, or a fault of tfdeploy itself |
| 130 | interrupted (Ctrl-C, SIGINT); a run has written a checkpoint before |
| 143 | terminated (SIGTERM); a run has written a checkpoint before |

## Options of every command

"""
COLOR = """\
Colour also follows the variables `NO_COLOR` and `FORCE_COLOR`. The value of `--set` is read as the type that its place
takes: text where a string belongs, an expression elsewhere. Of several for one path, the last counts.

"""


def page() -> str:
    """Return the text of the page."""
    common = _common()
    options = table(["option", "meaning"], [_option(each) for each in common.values()])
    sections = [_command(name, common) for name in COMMANDS]
    return (NOTICE + INTRODUCTION + "".join(sections) + EXIT_CODES + options + COLOR).rstrip("\n") + "\n"


def _common() -> dict[str, click.Option]:
    @click.command()
    @common_options
    def nothing(_: object) -> int:
        return 0

    return {each.name: each for each in nothing.params if isinstance(each, click.Option) and each.name}


def _command(name: str, common: dict[str, click.Option]) -> str:
    command = load(name)
    context = click.Context(command, info_name=f"tfdeploy {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## {name}\n\n`tfdeploy {name} {usage}`\n\n{_help(command)}\n\n"]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    own = [each for each in options if each.name not in common]
    if own:
        parts.append(table(["option", "meaning"], [_option(each) for each in own]))
    return "".join(parts)


def _help(command: click.Command) -> str:
    """Return the help of a command, each paragraph on a line."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _option(option: click.Option) -> list[str]:
    context = click.Context(click.Command("any"))
    shown = ", ".join(f"`{each}`" for each in option.opts)
    if not option.is_flag:
        shown += f" `{_value(option, context)}`"
    said = f"{option.help or ''}{' Required.' if option.required else ''}"
    if option.show_default is True and not option.is_flag:
        said += f" Default: `{option.default}`."
    return [shown, said]


def _value(option: click.Option, context: click.Context) -> str:
    if isinstance(option.type, click.IntRange):
        return "N"
    return option.metavar or option.make_metavar(context).strip("[]")
