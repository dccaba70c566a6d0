"""`tfdeploy fmt`, `show` and `check`: specs in one style, what they come to, and every error at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import unified_diff
from typing import Any

import attrs
import click

from dsl import ir
from dsl.diagnostics import Diagnostic, Edit, SpecError, edited, safe_fixes
from dsl.formats.render import FORMATS, render
from dsl.source import Source
from grammar.format import format_text, source_of
from tfdeploy.cli.common import INPUT, Common, say, write_result
from tfdeploy.cli.faults import exit_code
from tfdeploy.cli.files import STDIN, is_unchanged, read, read_spec, replace_file, specs_of, standard_input
from tfdeploy.cli.options import common_options, flag, offer, option

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
        write_result(to_json(loaded))
    else:
        from grammar.unparse import unparse  # which formatting does without

        write_result(unparse(loaded))
    return 0


# --- check ------------------------------------------------------------------------------------------------

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
def check_command(common: Common, specs: tuple[str, ...], style: str, *, fix: bool) -> int:
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
        from compiler.checks import diagnose  # which formatting does without

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
    for fix in safe_fixes(diagnostics, is_unchanged):
        for edit in fix.edits:
            taken.setdefault(edit.span.source, []).append(edit)
        name = fix.edits[0].span.source.name
        counts[name] = counts.get(name, 0) + 1
    for source, edits in taken.items():
        replace_file(source.name, edited(source.text, edits))
    return counts


# --- the IR as JSON ---------------------------------------------------------------------------------------

# A record is an object whose `node` is the name of its class; spans are left out.

FORMAT_VERSION = "1.0"
_PLACES = ("span", "spans", "name_span", "other_spans", "arg_spans", "kwarg_spans", "includes", "folder")


def to_json(spec: ir.Spec) -> str:
    """Return a spec as JSON, with `format_version` as its first member and a newline at the end."""
    return json.dumps({"format_version": FORMAT_VERSION, "spec": _plain(spec)}, indent=2) + "\n"


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        fields = [each.name for each in attrs.fields(type(value)) if each.name not in _PLACES]
        return {"node": type(value).__name__, **{name: _plain(getattr(value, name)) for name in fields}}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
