"""TFD517, and TFD546 of the simulation of a step: a graph that is too large."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic
from dsl.errors.making import error, warning
from dsl.errors.words import joined
from dsl.source import Span

_WHY = "a graph is saved, and sent to other tasks, as one message of protobuf, which has 2 GiB at most"


def sums_too_large(
    total: str, aggregate: str, ops: int, clones: int, better: Sequence[str], span: Span | None
) -> Diagnostic:
    """Report an aggregation that writes more ops than a graph can have.

    Args:
        total: The bytes of the graph at least, as text.
        aggregate: The aggregation.
        ops: The ops that it would write at least.
        clones: The number of clones.
        better: The aggregations with which the graph would be small enough.
        span: The place of `aggregate` in the spec; None if it is not known.
    """
    return error(
        "TFD517",
        _title(total),
        span,
        text=f"{_about(ops)} ops that sum the gradients of {clones:,} clones",
        notes=(*_why_so_many(aggregate), _WHY),
        help=f"use {joined([f'`aggregate = {each}`' for each in better], 'or')}",
    )


def towers_too_large(
    total: str, ops: int, clones: int, span: Span | None, *, between_graph: bool, warn: bool = False
) -> Diagnostic:
    """Report clones that have more ops than a graph can have.

    Args:
        total: The bytes of the graph at least, as text.
        ops: The ops of the clones at least.
        clones: The number of clones.
        span: The place of their number, or of the devices; None if it is not known.
        between_graph: Whether each worker could have a graph of its own.
        warn: Whether the graph is not going to be built now.
    """
    advice = "`update.replication = between_graph`, which gives each worker a graph of its own"
    return (warning if warn else error)(
        "TFD517",
        _title(total),
        span,
        text=f"{_about(ops)} ops of {clones:,} clones",
        notes=(_WHY, *_only_shown(warn)),
        help=f"use {advice}" if between_graph else "use fewer clones, with larger batches",
    )


def boxes_too_large(
    total: str, ops: int, workers: int, span: Span | None, *, warn: bool = False
) -> Diagnostic:
    """Report workers from which the chief takes more tensors than its graph can have ops for.

    Args:
        total: The bytes of the chief's graph at least, as text.
        ops: The ops on the mailboxes at least.
        workers: The number of workers.
        span: The place of `replication` in the spec; None if it is not known.
        warn: Whether the graph is not going to be built now.
    """
    return (warning if warn else error)(
        "TFD517",
        _title(total),
        span,
        text=f"{_about(ops)} ops with which the first worker takes the gradients of {workers:,}",
        notes=(_WHY, *_only_shown(warn)),
        help="use fewer workers, with more clones each, or `mode = async`",
    )


def _why_so_many(aggregate: str) -> tuple[str, ...]:
    if aggregate not in ("ring", "shuffle"):
        return ()
    return (f"`{aggregate}` cuts the gradients of every clone into a piece for every clone",)


def _title(total: str) -> str:
    return f"the graph would have more than {total}, and TensorFlow can hold no more than 2 GiB"


def _only_shown(warn: bool) -> tuple[str, ...]:
    return ("its placement is shown all the same, but it cannot be run",) if warn else ()


def _about(ops: int) -> str:
    """Return a large number in two digits."""
    digits = max(0, len(str(ops)) - 2)
    return f"about {ops // 10**digits * 10**digits:,}"


def forecast_without_room(ops: int, needed: str, left: str, span: Span | None) -> Diagnostic:
    """Report a step whose memory cannot be forecast here, because simulating it takes too much memory itself.

    Args:
        ops: The number of ops of the step.
        needed: The memory of the simulation, as text.
        left: The memory that is left, as text.
        span: The place of the number of clones, or of the devices; None if it is not known.
    """
    return error(
        "TFD546",
        f"to forecast the memory of a step of {ops:,} ops takes about {needed}, and {left} are left here",
        span,
        text="makes the step this large",
        notes=("TensorFlow simulates the step, which takes about 40 kB for each op",),
        help="forecast fewer clones, each of which needs as much; training needs no forecast without "
        "`gpu_memory`, `cpu_memory` and conditions on memory in `expect`",
    )
