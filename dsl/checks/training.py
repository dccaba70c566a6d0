"""Checks of training: averages of copies, rules of `optimizer`, and the score of `best`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import layers, names, references
from dsl.suggest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl import ir
    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def averaging(facts: Facts) -> Iterator[Diagnostic]:
    """Report `mode = local` without `average_every`."""
    update = facts.update
    if update is not None and update.mode == "local" and update.average_every is None:
        yield names.missing_average(update.spans["mode"])


def optimizer_groups(facts: Facts) -> Iterator[Diagnostic]:
    """Report every rule that comes after one with the same glob or with the glob of all weights."""
    taken: set[str] = set()
    for group in facts.update.groups if facts.update is not None else ():
        if taken & {"*", group.pattern}:
            yield layers.group_without_weights(group.name_span or group.span, pattern=group.pattern)
        taken.add(group.pattern)


LOSS = "loss"


def best_score(facts: Facts) -> Iterator[Diagnostic]:
    """Report `best` of an unknown score or without evaluations, and `patience` without `best`."""
    train = facts.train
    if train is None:
        return
    if train.best is None:
        if train.patience is not None:
            doc = "`patience` counts evaluations that are no better than the best"
            yield names.missing_attribute(train.spans["patience"], name="best", place="`train`", doc=doc)
        return
    if facts.model is not None:
        yield from _known(train.best, [LOSS, *(metric.name for metric in facts.model.metrics)])
    if train.evaluate_every is None:
        doc = "the best is found among the evaluations in the course of training"
        yield names.missing_attribute(train.spans["best"], name="evaluate_every", place="`train`", doc=doc)
    if not {"validation", "test"} & {each.name for each in facts.splits}:
        doc = "the best is found by evaluating `validation`, or `test` if there is no other"
        yield names.missing_attribute(train.spans["best"], name="validation", place="`data`", doc=doc)


def _known(goal: ir.Call, scores: list[str]) -> Iterator[Diagnostic]:
    given = goal.args[0] if goal.args else goal.kwargs["score"]
    span = goal.arg_spans[0] if goal.arg_spans else goal.kwarg_spans["score"]
    if given not in scores:
        name = str(given)
        yield references.unknown_name(span, name=name, kind="score", near=nearest(name, scores), known=scores)
