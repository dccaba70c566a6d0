"""TFD520 to TFD529: update modes, aggregations, placements and numerics that cannot be combined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Label
from dsl.errors.making import error

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def conflict(
    code: str,
    message: str,
    reasons: tuple[str, ...],
    nearest: str,
    span: Span | None,
    other: Span | None,
) -> Diagnostic:
    """Report settings that cannot be combined.

    Args:
        code: The code, such as `TFD520`.
        message: Which settings these are, as a sentence.
        reasons: Why they cannot be combined, a sentence each.
        nearest: The nearest combination that is possible, as advice.
        span: The place of the first setting in the spec; None if it is not known.
        other: The place of the second setting; None if it is not written in the spec.
    """
    label = (Label(other, "with this"),) if other is not None and other != span else ()
    return error(code, message, span, text="here", labels=label, notes=reasons, help=nearest)


def random_numbers(span: Span | None) -> Diagnostic:
    """Report a model that cannot be verified because it draws random numbers in training."""
    return error(
        "TFD527",
        "the model draws random numbers that cannot be switched off",
        span,
        notes=("every clone draws its own, so no two layouts compute the same",),
        help="leave out what draws them, such as dropout inside an application or a Python layer",
    )


def random_predictions(step: str, span: Span | None) -> Diagnostic:
    """Report a layer that draws random numbers also when the model predicts.

    Args:
        step: The name of the layer.
        span: The place of the layer in the spec; None if it is not known.
    """
    return error(
        "TFD527",
        f"`{step}` draws random numbers also when the model predicts",
        span,
        text="draws also without training",
        notes=("evaluation and the exported model must give the same result for the same example",),
        help="let its `call` take the argument `training`, and draw only if that is true",
    )
