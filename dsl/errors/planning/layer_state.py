"""Diagnostics of layers that know more than their weights: vocabularies, statistics and boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Label
from dsl.errors.making import error
from dsl.errors.words import joined

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def no_state(layer: str, argument: str, span: Span | None) -> Diagnostic:
    """Report a layer that gets neither words or boundaries nor data to learn them from.

    Args:
        layer: The class of the layer.
        argument: The argument that gives them.
        span: The place of the step.
    """
    given = (
        '`vocabulary = ["a", "b"]`, `vocabulary = "words.txt"` or'
        if argument == "vocabulary"
        else f"`{argument}` or"
    )
    return error(
        "TFD366",
        f"`{layer}` has no `{argument}`",
        span,
        text=f"neither `{argument}` nor `adapt`",
        help=f"write {given} `adapt = data.train`",
    )


def state_given_twice(layer: str, argument: str, span: Span | None, adapt: Span | None) -> Diagnostic:
    """Report a layer that is to learn what an argument gives it already.

    Args:
        layer: The class of the layer.
        argument: The argument that gives it.
        span: The place of that argument.
        adapt: The place of `adapt`.
    """
    return error(
        "TFD367",
        f"`{layer}` has both `{argument}` and `adapt`",
        span,
        text="given here",
        labels=(Label(adapt, "learnt from data here"),) if adapt is not None else (),
        help="leave out one of them",
    )


def split_to_adapt_missing(layer: str, split: str, span: Span | None, data: Span | None) -> Diagnostic:
    """Report a layer that is to learn from a split that the spec does not have.

    Args:
        layer: The class of the layer.
        split: The name of the split.
        span: The place of `adapt`.
        data: The place of the block `data`, or None if there is none.
    """
    return error(
        "TFD368",
        f"`{layer}` learns from `data.{split}`, which the spec does not have",
        span,
        labels=(Label(data, f"there is no `{split}` here"),) if data is not None else (),
        help=f"add `{split} = ...` to the block `data`, or name another split",
    )


def cannot_adapt_here(layer: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a layer that learns from data at a place at which it cannot.

    Args:
        layer: The class of the layer.
        reason: Why not.
        span: The place of the step, or of `adapt`.
    """
    return error(
        "TFD369",
        f"`{layer}` cannot learn from data here: {reason}",
        span,
        help="write it as a step that is used once, such as `x -> Normalization(adapt = data.train)`",
    )


def unreadable_vocabulary(path: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a file of words that cannot be used.

    Args:
        path: The file.
        reason: Why not.
        span: The place of its name in the spec.
    """
    return error(
        "TFD580",
        f"the vocabulary `{path}` cannot be read: {reason}",
        span,
        help="the file has one word in each line, in UTF-8; its path is relative to the folder of the spec",
    )


def nothing_learnt(layer: str, split: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a layer that cannot learn from the examples of its split.

    Args:
        layer: The class of the layer.
        split: The name of the split.
        reason: What is wrong with the examples.
        span: The place of the step.
    """
    return error("TFD581", f"`{layer}` cannot learn from `data.{split}`: {reason}", span)


def state_does_not_fit(path: str, layer: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a record of what layers have learnt that is not of this spec.

    Args:
        path: The file.
        layer: The path of the layer in the model.
        reason: What is wrong with the record.
        span: The place of the step.
    """
    return error(
        "TFD582",
        f"`{path}` does not have what `{layer}` has learnt: {reason}",
        span,
        notes=("the weights were trained with it",),
        help='undo the change, or give this run a directory of its own, as in `directory = "runs/second"`',
    )


def learnt_in_many_graphs(layer: str, span: Span | None, step: Span | None) -> Diagnostic:
    """Report a layer that learns from data while every worker has a graph of its own.

    Args:
        layer: The class of the layer.
        span: The place of `replication`, or of the block `update`.
        step: The place of the step.
    """
    return error(
        "TFD584",
        f"`{layer}` cannot learn from data if every worker has a graph of its own",
        span,
        labels=(Label(step, "learns from data"),) if step is not None else (),
        notes=("each worker would learn for itself, and nothing compares what they have learnt",),
        help="use `replication = in_graph`, or give the layer what an earlier run has learnt",
    )


def weights_before_adapt(layer: str, before: Iterable[str], span: Span | None) -> Diagnostic:
    """Report a layer that learns, before training, from what layers with weights make.

    Args:
        layer: The class of the layer.
        before: The layers with weights before it.
        span: The place of the step.
    """
    names = joined([f"`{each}`" for each in before])
    return error(
        "TFD583",
        f"`{layer}` learns from what layers with weights make: {names}",
        span,
        text="learns before training",
        help="before a layer with `adapt`, use only layers and operations without weights",
    )
