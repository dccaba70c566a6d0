"""TFD54x: variables in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.making import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.source import Span


def no_such_axis(name: str, shape: Sequence[int], axis: int, span: Span | None) -> Diagnostic:
    """Report a variable that lacks the axis along which its rule cuts it."""
    here = "one axis (number 0)" if len(shape) == 1 else f"axes 0..{len(shape) - 1}"
    return error(
        "TFD547",
        f"`{name}` has no axis {axis}",
        span,
        text="no such axis",
        notes=(f"its shape is {list(shape)}, which has {here}" if shape else "it is a single number",),
        help="select the variables to cut by a glob, as in"
        f' `variables("dense/kernel") -> sharded(cpu[*], axis = {axis})`',
    )


def needs_whole(name: str, what: str, reason: str, span: Span | None, rule: Span | None) -> Diagnostic:
    """Report a variable in pieces that `what`, such as its optimizer, can only treat as a whole."""
    return error(
        "TFD548",
        f"`{name}` cannot be sharded, because {what} needs the whole variable",
        span,
        text=reason,
        labels=() if rule is None else (Label(rule, "the variable is cut by this"),),
        help="give the variable a rule of its own that keeps it whole, such as"
        f' `variables("{name}") -> balanced(...)` below the other',
    )
