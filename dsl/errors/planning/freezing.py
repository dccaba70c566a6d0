"""TFD57x: frozen weights, and files of weights for parts of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span

MOST_NAMES = 5


def freeze_matches_nothing(glob: str, names: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a glob of `freeze` that matches no weight.

    Args:
        glob: The glob.
        names: The nearest names of weights.
        span: The place of the glob in the spec; None if it is not known.
    """
    return error(
        "TFD570",
        f"no weight of the model matches `{glob}`, which is to be frozen",
        span,
        text="matches nothing",
        notes=_nearest(names),
    )


def everything_frozen(names: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a model all of whose weights are frozen.

    Args:
        names: The names of the weights.
        span: The place of what freezes them in the spec; None if it is not known.
    """
    shown = ", ".join(f"`{each}`" for each in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return error(
        "TFD571",
        "all weights of the model are frozen, so there is nothing to train",
        span,
        notes=(f"weights: {shown}{more}",),
        help="leave out `trainable = false`, or the glob in `freeze`, for the layers that are to be trained",
    )


def part_matches_nothing(glob: str, file: str, names: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a glob of the block `weights` that matches no weight.

    Args:
        glob: The glob.
        file: The file with which these weights were to start.
        names: The nearest names of weights.
        span: The place of the glob in the spec; None if it is not known.
    """
    return error(
        "TFD572",
        f"no weight of the model matches `{glob}`, which is to start from `{file}`",
        span,
        text="matches nothing",
        notes=_nearest(names),
    )


def step_without_weights(file: str, span: Span | None) -> Diagnostic:
    """Report a step that is to start from a file although it has no weights.

    Args:
        file: The file.
        span: The place of the step in the spec; None if it is not known.
    """
    return error("TFD572", f"the step has no weights that could start from `{file}`", span)


def _nearest(names: Sequence[str]) -> tuple[str, ...]:
    listed = ", ".join(f"`{each}`" for each in names)
    return (f"the nearest names are {listed}",) if names else ()
