"""Reading the spec that a command is given: warnings are shown, errors are raised."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import grammar
from dsl.diagnostics import SpecError
from grammar.format import source_of
from tfdeploy.cli.faults import show

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.cli.common import Common


STDIN = "-"


def read(path: str, common: Common, *, stdin: bool = False) -> grammar.Reading:
    """Read the spec at `path` with the overrides of the command line; with `stdin`, `-` is standard input.

    Raises SpecError where standard input is no text.
    """
    name, text = path, None
    if stdin and path == STDIN:
        name = "<stdin>"
        text = source_of(name, sys.stdin.buffer.read()).text
    return grammar.read(name, common.overrides, text=text, allow_python=common.allow_python)


def read_spec(path: str, common: Common, *, stdin: bool = False) -> ir.Spec:
    """Return the spec at `path` (see `read`), its warnings on standard error.

    Raises SpecError with everything that was found where there are errors.
    """
    found = read(path, common, stdin=stdin)
    if found.spec is None:
        raise SpecError(found.diagnostics)
    if len(found.diagnostics):
        show(found.diagnostics, common)
    return found.spec
