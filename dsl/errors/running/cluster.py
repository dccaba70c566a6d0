"""TFD760 to TFD779: errors between the tasks of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Label
from dsl.errors.making import error, warning
from dsl.errors.words import alternatives, counted, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Span

MOST_NAMED = 8


def bad_tf_config(reason: str, *notes: str, advice: str | None = None) -> Diagnostic:
    """Report an environment variable TF_CONFIG that cannot be used; its text is never shown.

    Args:
        reason: What is wrong with it, as the end of a sentence.
        *notes: What else is known, a sentence each.
        advice: What to do about it; None if there is no advice.
    """
    return error("TFD760", f"TF_CONFIG {reason}", None, notes=notes, help=advice)


def no_such_task(ref: str, refs: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a task that the cluster does not have.

    Args:
        ref: The task, such as `worker[3]`.
        refs: The tasks of the cluster; none if the spec declares no jobs.
        span: The place of the job of that name, or of all jobs; None if it is not known.
    """
    notes = (f"the tasks are {alternatives(refs)}",) if refs else ("the spec declares no jobs",)
    return error("TFD761", f"the cluster has no task `{ref}`", span, notes=notes)


def no_addresses(job: str, span: Span | None) -> Diagnostic:
    """Report a task that is to be run by itself although nothing says where the others are.

    Args:
        job: The name of the job.
        span: The place of the job in the spec; None if it is not known.
    """
    return error(
        "TFD761",
        f"nothing says where the tasks of `{job}` are",
        span,
        text="no `hosts` here, and TF_CONFIG is not set",
        help='give every job `hosts = ["address:port", ...]`, or run `compile-and-run` without `--task`, '
        "which starts all tasks on this machine",
    )


def not_for_this_command(ref: str, replication: str, span: Span | None, *, serves: bool) -> Diagnostic:
    """Report a task that is started by the wrong command; `serves` says that it is a plain server.

    Args:
        ref: The task.
        replication: `in_graph` or `between_graph`.
        span: The place of the jobs in the spec; None if it is not known.
        serves: Whether the task is a plain server.
    """
    command = "serve SPEC" if serves else "compile-and-run SPEC"
    notes = ("one client, `compile-and-run SPEC` without a task, trains on all of them",)
    return error(
        "TFD761",
        f"`{ref}` is {'a server' if serves else 'a worker that trains'} under `replication = {replication}`",
        span,
        notes=notes if replication == "in_graph" else (),
        help=f"start it with `{command} --task {ref}`",
    )


def not_running(span: Span | None) -> Diagnostic:
    """Report a cluster whose tasks are nowhere to be looked for."""
    return error(
        "TFD761",
        "nothing says where the tasks are" if span is not None else "the spec declares no jobs",
        span,
        text="no `hosts` for all jobs, no TF_CONFIG, and no run under way" if span is not None else "",
        help="run this where the cluster was started, with the same run directory",
    )


def which_task(refs: Sequence[str], span: Span | None) -> Diagnostic:
    """Report a worker's process that does not say which worker it is.

    Args:
        refs: The workers of the cluster, of which there is at least one.
        span: The place of the first job in the spec; None if it is not known.
    """
    return error(
        "TFD761",
        "nothing says which worker this process is",
        span,
        notes=(f"the workers are {alternatives(refs)}",),
        help=f"say it, as in `--task {refs[0]}`, or start all tasks on this machine: `--launch`",
    )


def bad_address(address: str, reason: str, span: Span | None) -> Diagnostic:
    """Report a host that is not of the form `host:port`.

    Args:
        address: The text that should be an address.
        reason: What is wrong with it.
        span: The place of the `hosts` of the job; None if it is not known.
    """
    return error("TFD769", f"{quoted(address)} is no address of a task: {reason}", span, text="here")


def shared_address(
    address: str, first: str, second: str, span: Span | None, other: Span | None
) -> Diagnostic:
    """Report two tasks with one address.

    Args:
        address: The address.
        first: The first task that has it.
        second: The second one.
        span: The place of the `hosts` of the second task's job; None if it is not known.
        other: The place of the `hosts` of the first task's job; None if it is not known.
    """
    labels = (Label(other, f"`{first}`"),) if other is not None and other != span else ()
    return error(
        "TFD769", f"`{first}` and `{second}` have one address, {quoted(address)}", span, labels=labels,
        text=f"`{second}`" if labels else "twice here", help="give every task a port of its own",
    )  # fmt: skip


def cannot_listen(ref: str, address: str, reason: str, advice: str | None = None) -> Diagnostic:
    """Report a server that cannot listen at the address of its task.

    Args:
        ref: The task.
        address: Its address.
        reason: What the operating system or TensorFlow says.
        advice: What to do about it; None if there is no advice.
    """
    return error("TFD762", f"the server of `{ref}` cannot listen at {address}: {reason}", None, help=advice)


def no_own_address(ref: str, address: str, host: str, *, leads_elsewhere: bool) -> Diagnostic:
    """Report a task whose host is no address of the machine on which it is started.

    Args:
        ref: The task.
        address: Its address.
        host: The host of the address.
        leads_elsewhere: Whether the name of the host leads to addresses, but to none of this machine.
    """
    where = "leads to other machines' addresses" if leads_elsewhere else "leads to no address"
    return error(
        "TFD762",
        f"the server of `{ref}` cannot listen at {quoted(address)}: {quoted(host)} {where}",
        None,
        notes=(
            "TensorFlow's servers have no authentication, so none listens at more addresses than it must",
        ),
        help="correct the name, start the task on its own machine, or let it listen at every address of this "
        "one: `--listen-everywhere`",
    )


def tasks_missing(missing: Sequence[str], why: str, waited: str, span: Span | None) -> Diagnostic:
    """Report tasks that have not been there for too long.

    Args:
        missing: What is known of each missing task, a sentence each.
        why: What the tasks are needed for, for the message.
        waited: How long was waited, as text.
        span: The place of `train.task_timeout` in the spec; None if it is not known.
    """
    shown = tuple(missing[:MOST_NAMED])
    more = len(missing) - len(shown)
    return error(
        "TFD763",
        f"gave up after {waited} of waiting {why}: {counted(len(missing), 'task')} missing",
        span,
        text="as long as this" if span is not None else "",
        notes=(*shown, f"and {more} more") if more else shown,
        help="start them, or find out why they do not answer; `train.task_timeout` limits the waiting",
    )


def unreachable(ref: str, address: str, reason: str, span: Span | None) -> Diagnostic:
    """Report the host of a task that cannot be reached at all.

    Args:
        ref: The task.
        address: Its address.
        reason: What the operating system says.
        span: The place of the `hosts` of its job; None if the addresses are not from the spec.
    """
    return error(
        "TFD763",
        f"`{ref}` cannot be reached at {address}: {reason}",
        span,
        help="check that the name of the host is right, that it is up, and that this machine can reach it",
    )


def wrong_task(ref: str, address: str, found: str, span: Span | None) -> Diagnostic:
    """Report an address at which something else answers than the task that should.

    Args:
        ref: The task that should be there.
        address: Its address.
        found: What answers, for the message.
        span: The place of the `hosts` of its job; None if the addresses are not from the spec.
    """
    return error(
        "TFD764",
        f"{found} answers at {address}, where `{ref}` should be",
        span,
        help="give every task an address of its own, the same ones in the `hosts` or TF_CONFIG of all tasks",
    )


def other_spec(ref: str, address: str, ours: str, theirs: str) -> Diagnostic:
    """Report a task that runs another spec than this process.

    Args:
        ref: The task.
        address: Its address.
        ours: The SHA-256 of the spec of this process.
        theirs: The SHA-256 of the task's spec.
    """
    return error(
        "TFD765",
        f"`{ref}` at {address} runs another spec than this process",
        None,
        notes=(
            f"the digest of spec, `--set` and included files is {ours[:12]} here and {theirs[:12]} there",
        ),
        help="start every task with the same spec and the same `--set` options",
    )


def other_version(ref: str, address: str, what: str, ours: str, theirs: str) -> Diagnostic:
    """Report a task that runs another version of TensorFlow or of this tool.

    Args:
        ref: The task.
        address: Its address.
        what: What has another version, such as TensorFlow.
        ours: The version of this process.
        theirs: The version of the task.
    """
    return error(
        "TFD766",
        f"`{ref}` at {address} runs {what} {theirs}, this process {ours}",
        None,
        help="install the same versions for every task",
    )


def open_to_network(ref: str, where: str) -> Diagnostic:
    """Warn of a server that others than this machine can reach.

    Args:
        ref: The task.
        where: Where it listens, for the message.
    """
    return warning(
        "TFD767",
        f"the server of `{ref}` listens at {where}, and TensorFlow's servers have no authentication",
        None,
        notes=("whoever reaches the port can read and change the model, and run ops on this machine",),
        help="let only the machines of the cluster reach it: a network of its own, or a firewall",
    )


def no_secret(path: str, reason: str, advice: str | None = None) -> Diagnostic:
    """Report a file for the run's secret that cannot be read or written, or that others can read.

    Args:
        path: The file.
        reason: What is wrong with it.
        advice: What to do about it; None for the usual advice.
    """
    return error(
        "TFD770",
        f"the secret of the run cannot be taken from {quoted(path)}: {reason}",
        None,
        help=advice
        or "name a file that only you can read: `TFDEPLOY_SECRET_FILE`; it is made if it is missing",
    )


def other_secret(ref: str, address: str) -> Diagnostic:
    """Report a task that does not share the secret of this process.

    Args:
        ref: The task.
        address: Its address.
    """
    return error(
        "TFD771",
        f"`{ref}` at {address} does not have the secret of this process",
        None,
        notes=("a task shuts down only if a process with the same secret asks it to",),
        help="give every task the same file: copy it to all machines, or name one on storage that they share"
        " by the environment variable `TFDEPLOY_SECRET_FILE`",
    )


def disbelieved(ref: str) -> Diagnostic:
    """Warn of a word to end that a server was told by somebody without the secret of the run."""
    return warning(
        "TFD772",
        f"somebody without the secret of the run has asked `{ref}` to shut down, which it does not do",
        None,
        help="find out who can reach its port: TensorFlow's servers have no authentication",
    )


def task_failed(ref: str, how: str, *notes: str, advice: str | None = None) -> Diagnostic:
    """Report a task whose end ends the run.

    Args:
        ref: The task.
        how: How it ended, as the end of a sentence.
        *notes: What else is known, a sentence each.
        advice: What to do about it; None if there is no advice.
    """
    return error("TFD768", f"`{ref}` {how}", None, notes=notes, help=advice)
