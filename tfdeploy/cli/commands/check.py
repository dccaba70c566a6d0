"""`tfdeploy check`: every error of a spec at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click

from compiler.checks import diagnose
from dsl.diagnostics import Diagnostic, Edit, SpecError, edited, safe_fixes
from dsl.files.regular import read_text
from dsl.formats.render import FORMATS, render
from dsl.source import Source
from tfdeploy.cli.common import INPUT, Common, say, write_result
from tfdeploy.cli.faults import exit_code
from tfdeploy.cli.files import STDIN, read, replace_file, specs_of
from tfdeploy.cli.options import common_options, flag, offer, option

DOCUMENTS = ("json", "sarif")
"""Formats that are a result to be stored or piped, and so go to standard output."""

ROUNDS = 10
"""How often fixes are applied and the spec is read again, should fixes keep showing up."""


@click.command()
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...|-", shell_complete=offer("specs"))
@option(
    "--format",
    "style",
    "How errors are written; json and sarif go to standard output.",
    type=click.Choice(FORMATS),
    default="human",
)
@flag("--fix", "Apply the fixes that cannot change what a spec means.")
@common_options
def command(common: Common, specs: tuple[str, ...], style: str, *, fix: bool) -> int:
    """Find every error in SPEC..., without TensorFlow.

    A folder means all specs below it, and - means standard input.
    """
    if fix and STDIN in specs:
        raise click.UsageError("--fix changes files, and standard input is none")
    try:
        paths = specs_of(specs)
    except SpecError as fault:
        return _show(fault.diagnostics, style, common)
    found: list[Diagnostic] = []
    for spec in paths:
        here = _read(spec, common)
        for _ in range(ROUNDS if fix else 0):
            if not _fixed(here, style):
                break
            here = _read(spec, common)
        found += here
        if style == "human" and not any(each.is_error for each in here):
            say(f"{INPUT if spec == STDIN else spec}: no errors")
    return _show(found, style, common)


def _show(found: Sequence[Diagnostic], style: str, common: Common) -> int:
    quiet = common.quiet and style not in DOCUMENTS
    shown = [each for each in found if each.is_error or not quiet]
    text = render(shown, style, color=common.color_errors)
    if style in DOCUMENTS:
        write_result(text)
    else:
        sys.stderr.write(text)
    return exit_code(found)


def _read(spec: str, common: Common) -> list[Diagnostic]:
    try:
        return diagnose(read(spec, common, stdin=True))
    except SpecError as fault:
        return list(fault.diagnostics)


def _fixed(found: list[Diagnostic], style: str) -> bool:
    counts = apply_safe(found)
    for name, count in counts.items():
        say(f"{name}: {count} fixed", err=style != "human")
    return bool(counts)


# --- fixes


def apply_safe(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Rewrite the files that safe fixes edit; return how many fixes each file took, by its name."""
    taken: dict[Source, list[Edit]] = {}
    counts: dict[str, int] = {}
    for fix in safe_fixes(diagnostics, _is_file):
        for edit in fix.edits:
            taken.setdefault(edit.span.source, []).append(edit)
        name = fix.edits[0].span.source.name
        counts[name] = counts.get(name, 0) + 1
    for source, edits in taken.items():
        replace_file(source.name, edited(source.text, edits))
    return counts


def _is_file(source: Source) -> bool:
    """Whether `source` is a file that still holds what was read from it."""
    try:
        return read_text(source.name).removeprefix("\ufeff") == source.text
    except (OSError, UnicodeDecodeError):
        return False
