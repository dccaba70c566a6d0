"""TFD54x: variables in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, Label
from dsl.errors.making import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.source import Span

JOINED = "its update of one element may depend on others"
"""Why an optimizer needs the whole of a variable."""


def no_such_axis(name: str, shape: Sequence[int], axis: int, span: Span | None) -> Diagnostic:
    """Report a variable that lacks the axis along which its rule cuts it.

    Args:
        name: The name of the variable.
        shape: Its shape.
        axis: The axis that the rule names.
        span: The place of the rule in the spec; None if it is not known.
    """
    here = "one axis (number 0)" if len(shape) == 1 else f"axes 0..{len(shape) - 1}"
    use = 'select the variables to cut by a glob, as in `variables("dense/kernel") -> sharded(..., axis = 1)`'
    if axis > 1:
        use = f"select by a glob only variables with more than {axis} axes"
        use += f", or cut along an axis that is there, as with `axis = {len(shape) - 1}`" if shape else ""
    return error(
        "TFD547",
        f"`{name}` has no axis {axis}",
        span,
        text="no such axis",
        notes=(f"its shape is {list(shape)}, which has {here}" if shape else "it is a single number",),
        help=use,
    )


def needs_whole(name: str, what: str, reason: str, span: Span | None, rule: Span | None) -> Diagnostic:
    """Report a variable in pieces that `what`, such as its optimizer, can only treat as a whole.

    Args:
        name: The name of the variable.
        what: What needs the whole variable, such as its optimizer, for the message.
        reason: Why it does, for the message.
        span: The place of what needs the whole variable in the spec; None if it is not known.
        rule: The place of the rule that cuts it; None if it is not known.
    """
    return error(
        "TFD548",
        f"`{name}` cannot be sharded, because {what} needs the whole variable",
        span,
        text=reason,
        labels=() if rule is None else (Label(rule, "the variable is cut by this"),),
        help="give the variable a rule of its own that keeps it whole, such as"
        f' `variables("{name}") -> balanced(...)` below the other',
    )


def update_needs_whole(name: str, what: str, span: Span | None, rule: Span | None) -> Diagnostic:
    """Report a variable whose slots are cut over the clones, and whose optimizer needs the whole variable.

    Args:
        name: The name of the variable.
        what: The name of its optimizer.
        span: The place of the optimizer in the spec; None if it is not known.
        rule: The place of the rule for its slots; None if it is not known.
    """
    return error(
        "TFD548",
        f"the slots of `{name}` cannot be cut over the clones, because the optimizer, {what}, needs the whole"
        " variable",
        span,
        text=JOINED,
        labels=() if rule is None else (Label(rule, "each clone would update a part by this"),),
        help="select the slots to cut by globs that leave this variable out, or give the variable an"
        " optimizer of its own with `optimizer { ... }`",
    )


def slots_without_copies(name: str, span: Span | None, rule: Span | None) -> Diagnostic:
    """Report a variable whose slots are to be cut over the clones, but which is not replicated.

    Args:
        name: The name of the variable.
        span: The place of the rule for its slots in the spec; None if it is not known.
        rule: The place of the rule for the variable; None if the default places it.
    """
    return error(
        "TFD549",
        f"the slots of `{name}` cannot be cut over the clones, because `{name}` is not replicated",
        span,
        text="each clone would keep a part of these slots",
        labels=() if rule is None else (Label(rule, f"this places `{name}`"),),
        notes=("a clone updates its part of a variable in a copy that it has, and sends the new values",),
        help="replicate the variable, or select the slots to cut by a glob, as in"
        ' `slots("dense/*") -> sharded(clones)`',
    )
