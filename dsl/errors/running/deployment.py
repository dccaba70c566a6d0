"""TFD780 to TFD789: errors in the deployment of a cluster, its data and its manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error
from dsl.errors.words import article, listed, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span


def in_process_source_on_remote_worker(
    source: str, task: str, reason: str, advice: str, span: Span | None
) -> Diagnostic:
    """Report a source that needs Python in the client's process, for inputs that a task's server reads.

    `source` is its name in the language, `task` as in `worker:0`; `reason` and `advice` are those of the
    stream's `needs_python`.

    Args:
        source: The name of the source in the language.
        task: The task, such as `worker:0`.
        reason: Why the source needs Python, as `needs_python` of the stream says.
        advice: What to do about it, as `needs_python` of the stream says.
        span: The place of the source in the spec; None if it is not known.
    """
    return error(
        "TFD781",
        f"this `{source}` cannot be read by the server of `{task}`",
        span,
        text="needs Python",
        notes=(
            reason,
            "with `replication = in_graph` the servers of the tasks read the data, without Python",
        ),
        help=advice,
    )


def nothing_to_deploy(span: Span | None) -> Diagnostic:
    """Report a spec of a single machine for which manifests of a cluster's tasks are wanted."""
    return error(
        "TFD785",
        "the spec declares no jobs, so there are no tasks to write manifests for",
        span,
        help='declare the tasks in `devices`, as in `job "worker" { tasks = 2 }`',
    )


def no_such_replica(job: str, known: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a job that is none of the kinds of replicas of a TFJob.

    Args:
        job: The name of the job.
        known: The names of the jobs for which there are replicas.
        span: The place of the job in the spec; None if it is not known.
    """
    return error(
        "TFD786",
        f"a TFJob has no replicas for {article('job')} {quoted(job)}",
        span,
        text="this job",
        notes=(f"its replicas are for the jobs {listed(known)}",),
        help=f"name the job `{known[-1]}`, or write plain Jobs with `--kind Job`",
    )


def no_manifest_name(name: str, reason: str, span: Span | None, advice: str) -> Diagnostic:
    """Report a name that Kubernetes does not take for what is made of it.

    Args:
        name: The name.
        reason: What Kubernetes asks of names, for the message.
        span: The place of the name in the spec; None if it is not known.
        advice: What to do about it.
    """
    return error("TFD787", f"{quoted(name)} cannot be a name in Kubernetes: {reason}", span, help=advice)
