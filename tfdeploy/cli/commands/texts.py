"""`tfdeploy fmt` and `tfdeploy show`: specs in one style, and what a spec comes to."""

from __future__ import annotations

from difflib import unified_diff

import click

from grammar.format import format_text, source_of
from tfdeploy.cli.common import Common, say, write_result
from tfdeploy.cli.files import STDIN, read_spec, replace_file, specs_of, standard_input
from tfdeploy.cli.options import common_options, flag, offer

DIFFERENT = 1


@click.command()
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...|-", shell_complete=offer("specs"))
@flag("--check", "Write nothing; list the specs that are not in the style, and exit with 1.")
@flag("--diff", "Write nothing; show what would change.")
@common_options
def fmt_command(common: Common, specs: tuple[str, ...], *, check: bool, diff: bool) -> int:
    """Format SPEC... in the one style of the language.

    A folder means all specs below it; - means to read standard input and to write to standard output.
    """
    del common
    different = [spec for spec in specs_of(specs) if _format(spec, check=check, diff=diff)]
    return DIFFERENT if check and different else 0


def _format(spec: str, *, check: bool, diff: bool) -> bool:
    """Format one spec and say whether it was not in the style."""
    source = standard_input() if spec == STDIN else source_of(spec)
    text = format_text(source)
    changes = text != source.text
    if diff and changes:
        write_result(_difference(source.name, source.text, text))
    if check and changes:
        say(f"{source.name}: would be formatted", err=diff)
    if check or diff:
        return changes
    if spec == STDIN:
        write_result(text)
    elif changes:
        replace_file(spec, text)
        say(f"{spec}: formatted")
    return changes


def _difference(name: str, before: str, after: str) -> str:
    lines = unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, f"{name} (formatted)"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


@click.command()
@click.argument("spec", shell_complete=offer("specs"))
@flag("--json", "as_json", "Print the IR as JSON.")
@common_options
def show_command(common: Common, spec: str, *, as_json: bool) -> int:
    """Print SPEC with includes, constants, overrides and defaults filled in, as a spec."""
    loaded = read_spec(spec, common, stdin=True)
    if as_json:
        from dsl.ir.json_format import to_json  # which imports cattrs

        write_result(to_json(loaded))
    else:
        from grammar.unparse import unparse  # which formatting does without

        write_result(unparse(loaded))
    return 0
