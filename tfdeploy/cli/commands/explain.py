"""`tfdeploy explain`: the page of a code."""

from __future__ import annotations

from pathlib import Path

import click

import tfdeploy
from dsl.codes import CODES, Code
from dsl.suggest import nearest
from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.options import common_options, offer

PAGES = Path(tfdeploy.__file__).with_name("pages")


@click.command()
@click.argument("code", required=False, shell_complete=offer("codes"))
@common_options
def command(common: Common, code: str | None) -> int:
    """Explain CODE, such as TFD402 or no-such-device: a wrong example, a right one, and why.

    Without CODE, list all codes.
    """
    del common
    if code is None:
        for each in CODES.values():
            say(f"{each.code}  {each.name}: {each.title}")
    else:
        write_result(page(_find(code)))
    return 0


def page(code: Code) -> str:
    """Return the page of `code`, in Markdown."""
    return (PAGES / f"{code.code}.md").read_text(encoding="utf-8")


def _find(wanted: str) -> Code:
    """Return the code that is called `wanted`, by number or by name."""
    names = {key.lower(): each for each in CODES.values() for key in (each.code, each.name)}
    key = wanted.strip().lower().replace("_", "-").removeprefix("error[").removeprefix("warning[").rstrip("]")
    if key in names:
        return names[key]
    near = nearest(key, names)
    hint = f"; there is {names[near].code} ({names[near].name})" if near is not None else ""
    raise click.UsageError(f"there is no code {wanted!r}{hint}")
