"""TFD550 to TFD552: what is wrong with optimizers and the groups of weights that they update."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic
from dsl.errors.making import error
from dsl.errors.words import counted, listed
from dsl.source import Span


def weights_without(names: Sequence[str], span: Span | None) -> Diagnostic:
    """Report trainable weights that no group of `optimizer` takes.

    Args:
        names: The names of these weights.
        span: The place of the last group in the spec; None if it is not known.
    """
    return error(
        "TFD550",
        f"no optimizer for {counted(len(names), 'trainable weight')}",
        span,
        text="no rule up to this one matches them",
        notes=(f"weights: {listed(names)}",),
        help='end the block with a rule for all that is left, such as `"*" -> SGD(0.01)`',
    )


def group_without_weights(pattern: str, span: Span | None) -> Diagnostic:
    """Report a group of `optimizer` whose weights all belong to groups before it.

    Args:
        pattern: The glob of the group.
        span: The place of the group in the spec; None if it is not known.
    """
    return error(
        "TFD551",
        f"no weight is left for `{pattern}`",
        span,
        text="rules before this one match all its weights",
        notes=("the first rule that matches a weight gives its optimizer",),
        help="put the rule for fewer weights first",
    )


def unusable(path: str, reason: str, span: Span | None, advice: str | None = None) -> Diagnostic:
    """Report what a function of the user's returns in place of an optimizer or schedule that can be used.

    Args:
        path: The function, as `module:function`.
        reason: What cannot be used, as a sentence.
        span: The place of the call in the spec; None if it is not known.
        advice: What to do about it; None if there is no advice.
    """
    return error(
        "TFD552",
        f"`{path}` gives nothing to train with",
        span,
        text="made by this call",
        notes=(reason,),
        help=advice,
    )
