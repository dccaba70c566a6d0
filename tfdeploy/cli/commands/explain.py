"""`tfdeploy explain`: the page of a code."""

from __future__ import annotations

import os

import click

import tfdeploy
from dsl.codes import CODES, Code
from tfdeploy.cli.common import Common
from tfdeploy.cli.options import Command, common_options, offer

PAGES = os.path.join(os.path.dirname(tfdeploy.__file__), "pages")  # noqa: PTH118, PTH120 pathlib is not loaded


@click.command(cls=Command)
@click.argument("code", required=False, shell_complete=offer("codes"))
@common_options
def command(common: Common, code: str | None) -> int:
    """Explain CODE, such as TFD402 or no-such-device: a wrong example, a right one, and why.

    Without CODE, list all codes.
    """
    del common
    if code is None:
        for each in CODES.values():
            click.echo(f"{each.code}  {each.name}: {each.title}")
    else:
        click.echo(page(_find(code)), nl=False)
    return 0


def page(code: Code) -> str:
    """Return the page of `code`, in Markdown."""
    with open(os.path.join(PAGES, f"{code.code}.md"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
        return file.read()


def _find(wanted: str) -> Code:
    """Return the code that is called `wanted`, by number or by name."""
    names = {key.lower(): each for each in CODES.values() for key in (each.code, each.name)}
    key = wanted.strip().lower().replace("_", "-").removeprefix("error[").removeprefix("warning[").rstrip("]")
    if key in names:
        return names[key]
    from difflib import get_close_matches

    near = get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f"; there is {names[near[0]].code} ({names[near[0]].name})" if near else ""
    raise click.UsageError(f"there is no code {wanted!r}{hint}")
