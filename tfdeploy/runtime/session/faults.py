"""What TensorFlow refuses while a graph runs, told in terms of the spec: the data, the clone, the layer."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import tensorflow as tf

from dsl.diagnostics import RunError
from dsl.errors.running import running as errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from compiler.graph.compiled import CompiledGraph
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span
    from tfdeploy.data import Stream

FULL = ("no space left", "quota exceeded", "file too large")


def refused(path: Path, fault: Exception, last_good: int | None = None) -> RunError:
    """Say why a file or folder of the run could not be written; `last_good` is the step of a checkpoint."""
    reason = reason_of(fault).rpartition("; ")[2].lower()  # without the name of a temporary file
    full = any(word in reason for word in FULL)
    return RunError(errors.cannot_write(str(path), reason, last_good, full=full))


@contextmanager
def located(
    doing: str,
    compiled: CompiledGraph,
    stream: Stream | None = None,
    lost: Callable[[], bool] | None = None,
) -> Iterator[None]:
    """Turn an error of TensorFlow into a RunError that names what of the spec it comes from.

    If `stream` was read inside, its data is looked at first. That a task of a cluster is lost, which
    `lost` is asked about, says nothing of the spec, and is left as it is.
    """
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as fault:
        if is_lost_task(fault, lost):
            raise
        # The latter comes from TensorFlow's own reports of data that quote bytes which are no text.
        explained = stream.explain(fault) if stream is not None else None
        if explained is None and isinstance(fault, UnicodeDecodeError):
            raise
        raise explained or RunError(_diagnostic(doing, compiled, fault)) from fault


def _diagnostic(doing: str, compiled: CompiledGraph, fault: tf.errors.OpError) -> Diagnostic:
    name = fault.node_def.name if fault.node_def is not None else None
    entry = compiled.ledger.entries.get(name) if name is not None else None
    clone = entry.clone if entry is not None else None
    layer, span = _layer(compiled, name, clone)
    return errors.step_failed(doing, reason_of(fault), span, clone=clone, layer=layer, op=name)


def _layer(compiled: CompiledGraph, name: str | None, clone: int | None) -> tuple[str | None, Span | None]:
    """Return the layer that an op belongs to, by its name inside the tower, and where the spec has it.

    What belongs to a loss or a metric is in no layer, but the spec has it all the same.
    """
    if name is None:
        return None, None
    scope = compiled.plan.towers[clone].scope if clone is not None else ""
    inner = name.removeprefix(f"{scope}/").removeprefix("gradients/")
    layers = {each.path: each.span for each in compiled.plan.model.layers}
    parts = inner.split("/")
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length])
        if path in layers:
            return path, layers[path]
    return None, _objective(compiled, parts)


def _objective(compiled: CompiledGraph, parts: list[str]) -> Span | None:
    """Return where the spec has the loss or the metric that an op with a name of these parts belongs to."""
    model = compiled.plan.model
    if parts[0] == "metrics":
        return next((each.span for each in model.metrics if each.name in parts[1:2]), None)
    if parts[0] != "loss":
        return None
    return model.losses[0].span if len(model.losses) == 1 else compiled.plan.spec.model.span_of("loss")


ALWAYS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)
"""The codes of a connection that breaks, of a session that a server does not know any more, of a wait that
took too long, and of variables that have no values: nothing of a spec, nor of its data, ends in these."""

SOMETIMES = (
    tf.errors.NotFoundError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
"""The codes of a resource that a server does not have any more, or of half an answer; and of files that are
missing, of Python code that fails, of ops that give up."""


def is_lost_task(fault: BaseException, lost: Callable[[], bool] | None) -> bool:
    """Whether `fault` comes of a task of a cluster that is gone, or has come back without its variables.

    If its code leaves that open, `lost` asks the tasks; it is None if all is in one process.
    """
    if lost is None:
        return False
    return isinstance(fault, ALWAYS) or (isinstance(fault, SOMETIMES) and lost())


_NODE = re.compile(r"^Node: '.*'$", re.MULTILINE)
_SEVERAL = re.compile(r"^\d+ root error\(s\) found\.\n\s*\(0\) [A-Z_]+: *", re.MULTILINE)  # told one by one
_TASK = re.compile(r"^(?:[A-Z_]+: )?(?:From /job:\S+:|=+)\s*$", re.MULTILINE)  # where, not what
_BEHIND = re.compile(r"\n\t ?\[\[|\nOriginal stack trace|\nErrors may have originated")


def reason_of(fault: Exception) -> str:
    """Return what TensorFlow or the operating system says went wrong, on one line."""
    if isinstance(fault, OSError):
        return (fault.strerror or str(fault)).lower()
    text = fault.message if isinstance(fault, tf.errors.OpError) else str(fault)
    *_, said = _NODE.split(_TASK.sub("", text))  # what comes before says where in Python the op was made
    lines = [
        line.strip()
        for line in _BEHIND.split(_SEVERAL.sub("", said, count=1))[0].splitlines()
        if line.strip()
    ]
    return lines[0] if lines else type(fault).__name__
