"""TFD54x: errors in the workers of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.diagnostics import Diagnostic
from dsl.errors.making import error
from dsl.errors.words import counted
from dsl.source import Span


def worker_without_clones(task: str, span: Span | None) -> Diagnostic:
    """Report a task that would have a graph without a tower.

    Args:
        task: The task, such as `worker[1]`.
        span: The place of what leaves it out in the spec; None if it is not known.
    """
    return error(
        "TFD541",
        f"no clone is on `{task}`",
        span,
        text="leaves it out",
        notes=("under `replication = between_graph` every worker trains clones of its own",),
        help="give clones to every worker, or declare fewer tasks",
    )


def clones_on_server(task: str, span: Span | None) -> Diagnostic:
    """Report clones on a parameter server, which has no graph of its own.

    Args:
        task: The task, such as `ps[0]`.
        span: The place of what puts a clone there in the spec; None if it is not known.
    """
    return error(
        "TFD542",
        f"a clone is on `{task}`, which only keeps variables",
        span,
        text="puts it there",
        notes=("under `replication = between_graph` only workers have a graph",),
        help="put the clones onto workers, or use `replication = in_graph`",
    )


def too_many_backups(backup: int, workers: int, span: Span | None) -> Diagnostic:
    """Report a step that would wait for no worker at all.

    Args:
        backup: The number of workers for which a step does not wait.
        workers: The number of workers.
        span: The place of `backup` in the spec; None if it is not known.
    """
    return error(
        "TFD543",
        f"`backup = {backup}` leaves no worker to wait for",
        span,
        text=f"of {counted(workers, 'worker')}",
        help=f"use at most `backup = {max(workers - 1, 0)}`",
    )


def uneven_workers(batches: Sequence[int], span: Span | None) -> Diagnostic:
    """Report workers that cannot stand in for each other.

    Args:
        batches: The number of examples of each worker in a step.
        span: The place of `backup` in the spec; None if it is not known.
    """
    return error(
        "TFD544",
        "`backup` needs workers with equal batches",
        span,
        text="does without any of them",
        notes=(f"the workers take {', '.join(map(str, batches))} examples in a step",),
        help="give every worker clones with the same batches in all, or leave `backup` out",
    )


def other_workers_device(worker: str, device: str, span: Span | None, op: str | None = None) -> Diagnostic:
    """Report what a worker's graph would have on a device of another worker, with the first op if known.

    Args:
        worker: The task of the worker.
        device: The device of the other worker.
        span: The place of the rule, or of the block `place`; None if it is not known.
        op: The first op there; None if it is not known.
    """
    return error(
        "TFD545",
        f"the graph of `{worker}` would have ops on `{device}`, which belongs to another worker",
        span,
        text="puts them there",
        notes=(f"the first of them is `{op}`",) if op is not None else (),
        help="name a device of every worker, such as `worker[*].cpu[0]`, or one of a parameter server",
    )
