"""`tfdeploy init`: a spec to begin with."""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import click

from dsl.diagnostics import RunError
from dsl.errors import files as errors
from dsl.suggest import nearest
from tfdeploy.cli.common import Common, say
from tfdeploy.cli.options import common_options, offer
from tfdeploy.templates.library import ENDING, START, Template, templates


@click.command()
@click.argument("spec", required=False, type=click.Path(path_type=Path), metavar="[SPEC]")
@click.option(
    "--template",
    "name",
    default=START,
    show_default=True,
    metavar="NAME",
    shell_complete=offer("template_names"),
    help="The template; `--list` names them.",
)
@click.option("--list", "listing", is_flag=True, help="List the templates, and write nothing.")
@common_options
def command(common: Common, spec: Path | None, *, name: str, listing: bool) -> int:
    """Write a spec that runs, with made-up data if it reads files, to the file SPEC.

    Without SPEC, the file is called after the template and is put into the current folder. Existing files
    are never replaced.
    """
    del common
    known = templates()
    if listing:
        say(_listed(known), end="")
        return 0
    if name not in known:
        near = nearest(name, known)
        hint = f"; there is a template with a similar name: {near}" if near else "; `--list` names them"
        raise click.UsageError(f"there is no template {name!r}{hint}")
    target = spec if spec is not None else Path(f"{name}{ENDING}")
    if target.suffix != ENDING:
        raise click.UsageError(f"{str(target)!r} does not end in {ENDING}, as the name of every spec does")
    _write(known[name], target)
    return 0


def _write(template: Template, target: Path) -> None:
    """Write the files of a template, or none of them if one is there or cannot be written."""
    from tfdeploy.runtime.records.files import write_atomically, writing

    files = template.files(target)
    for path in files:
        if os.path.lexists(path):
            raise RunError(errors.never_replaced(output=str(path)))
    with ExitStack() as undo:
        for path, text in files.items():
            with writing(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
            undo.callback(path.unlink)
        undo.pop_all()
    for path in files:
        say(f"{path}: {template.title}" if path == target else f"{path}: made-up examples")
    say("What to do with it:")
    for verb in ("check", "plan", "compile-and-run"):
        say(f"  tfdeploy {verb} {_argument(target)}")


def _argument(path: Path) -> str:
    """Return a path as a shell reads it, also if it begins like an option."""
    from shlex import quote

    text = str(path)
    return quote(f"./{text}" if text.startswith("-") else text)


def _listed(known: dict[str, Template]) -> str:
    width = max(map(len, known))
    parts = []
    for group, members in groupby(known.values(), key=lambda each: each.group):
        lines = [f"  {each.name:<{width}}  {each.title}" for each in members]
        parts.append("\n".join([f"{group}:", *lines]))
    return "\n\n".join(parts) + "\n"
