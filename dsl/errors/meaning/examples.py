"""Diagnostics of transforms and layers that change examples at random."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Label
from dsl.errors.making import error

if TYPE_CHECKING:
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def random_in_evaluation(transform: str, split: str, span: Span | None) -> Diagnostic:
    """Report a random transform of examples that are not for training.

    Args:
        transform: The name of the transform.
        split: The name of the split, `validation` or `test`.
        span: The place of the transform in the spec; None if it is not known.
    """
    return error(
        "TFD316",
        f"`{transform}` changes examples at random, and `{split}` is not for training",
        span,
        text="for `train` only",
        help="write `center_crop` with the same size"
        if transform == "random_crop"
        else f"leave it out of `{split}`",
    )


def random_before_cache(transform: str, span: Span | None, cache: Span | None) -> Diagnostic:
    """Report a random transform whose results would be kept in memory.

    Args:
        transform: The name of the transform.
        span: The place of the transform in the spec; None if it is not known.
        cache: The place of `cache()`; None if it is not known.
    """
    return error(
        "TFD317",
        f"`{transform}` before `cache` would change an example in the same way in every pass",
        span,
        text="computed only once",
        labels=() if cache is None else (Label(cache, "keeps what is before it"),),
        help=f"put `{transform}` after `cache()`",
    )


def mixing_layer(layer: str, span: Span | None) -> Diagnostic:
    """Report a layer that mixes the images of a batch.

    Args:
        layer: The name of the layer.
        span: The place of the layer in the spec; None if it is not known.
    """
    return error(
        "TFD561",
        f"`{layer}` mixes each image with others of its batch, and does not mix their labels",
        span,
        text="depends on how examples are divided among clones",
        help="mix examples in the data: `-> mixup(image, label)` after the other transforms of `train`",
    )
