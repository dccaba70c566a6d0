"""Reading the spec that a command is given: warnings are shown, errors are raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grammar
from dsl.diagnostics import SpecError
from tfdeploy.cli.faults import show

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.cli.options import Common


def read_spec(path: str, common: Common) -> ir.Spec:
    """Return the spec at `path` with the overrides of the command line, its warnings on standard error.

    Raises SpecError with everything that was found where there are errors.
    """
    found = grammar.read(path, common.overrides, allow_python=common.allow_python)
    if found.spec is None:
        raise SpecError(found.diagnostics)
    if len(found.diagnostics):
        show(found.diagnostics, common)
    return found.spec
