"""TFD741, TFD742 and TFD754: errors in the weights that others have trained and a run starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error
from dsl.errors.words import first_of, in_full, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span

MOST_FAULTS = 5


def weights_do_not_fit(
    path: str, faults: Sequence[str], span: Span | None, *, missing: bool = False
) -> Diagnostic:
    """Report a file of weights to start from that is of another model.

    Args:
        path: The file.
        faults: What differs, one weight each.
        missing: Whether there are weights of the model that are not in the file.
        span: The place of the attribute that names the file in the spec; None if it is not known.
    """
    return error(
        "TFD741",
        f"the weights in `{path}` are not those of this model",
        span,
        notes=first_of(faults, MOST_FAULTS),
        help="to start a part of the model from it, write a rule in `train`: "
        '`weights { "part/*" -> "file.keras" }`'
        if missing
        else None,
    )


def part_does_not_fit(path: str, pattern: str, faults: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a file of weights for a part of the model that lacks weights of it, or has other shapes.

    Args:
        path: The file.
        pattern: The glob of the part's weights.
        faults: What differs, one weight each.
        span: The place of the rule of the part in the spec; None if it is not known.
    """
    return error(
        "TFD741",
        f"the weights in `{path}` do not fit `{pattern}`",
        span,
        notes=first_of(faults, MOST_FAULTS),
    )


def weights_unreadable(path: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a file of weights to start from that cannot be read.

    Args:
        path: The file.
        reason: What is wrong with it.
        span: The place of what names the file in the spec; None if it is not known.
    """
    return error("TFD742", f"the weights in `{path}` cannot be read: {reason}", span)


def weights_not_fetched(
    application: str, origin: str, target: str, reason: str, span: Span | None
) -> Diagnostic:
    """Report weights of a model of Keras that are not on this machine and cannot be fetched.

    Args:
        application: The name of the model in `keras.applications`.
        origin: The address of the file.
        target: The path at which Keras looks for it on this machine.
        reason: Why it cannot be fetched.
        span: The place of the call of the model in the spec; None if it is not known.
    """
    return error(
        "TFD754",
        f"the weights of {quoted(application)} cannot be fetched: {reason}",
        span,
        text="wants them" if span is not None else "",
        notes=(f"the file is {origin}",),
        help=f"put it there as {in_full(target)}, or write `weights = none`",
    )
