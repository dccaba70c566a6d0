"""Errors of TensorFlow while a graph runs, as diagnostics that name the data, the clone and the layer.

Whether an error means that a task of a cluster was lost is decided by its status code, and by asking the
tasks if the code leaves that open. The example with which an op of the model fails is found by the
evaluation tower, which is run over the examples in the order of the files, in batches and then one by
one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.figures import reached
from compiler.graph.compiled import CompiledGraph
from compiler.graph.feeding import InputPipe
from compiler.graph.scores import SCOPE as EVALUATION
from dsl.diagnostics import Diagnostic, Label, RunError
from dsl.errors import running as errors
from dsl.errors.data import out_of_range
from dsl.files.regular import system_reason
from dsl.source import Span
from tfdeploy.data import Stream
from tfdeploy.runtime.session.engine import Engine, task_that_refused

FULL = ("no space left", "quota exceeded", "file too large")


def refused(path: Path, fault: Exception, last_good: int | None = None) -> RunError:
    """Return the error about a file or folder of the run that could not be written."""
    reason = reason_of(fault).rpartition("; ")[2].lower()  # without the name of a temporary file
    full = any(word in reason for word in FULL)
    return RunError(errors.cannot_write(path=str(path), reason=reason, last_good=last_good, full=full))


@contextmanager
def located(
    doing: str,
    compiled: CompiledGraph,
    stream: Stream | None = None,
    lost: Callable[[], bool] | None = None,
    search: Callable[[], tuple[int, Exception] | None] | None = None,
) -> Iterator[None]:
    """Turn an error of TensorFlow in the block into a RunError that names a part of the spec.

    An error that means that a task of a cluster was lost is raised unchanged.

    Args:
        stream: The data that the block reads, which is searched for a fault first; None if it reads none.
        lost: Returns whether a task of the cluster was lost; None without a cluster.
        search: Returns the number of the example of the stream with which the model fails, and the error.
    """
    try:
        yield
    except (tf.errors.OpError, UnicodeDecodeError) as fault:
        if is_lost_task(fault, lost):
            raise
        # The latter comes from TensorFlow's own reports of data that quote bytes which are no text.
        name = next(iter(_failed_ops(compiled, fault)), None)
        entry = compiled.ledger.entries.get(name or "")
        of_model = entry is not None and entry.role != "input"
        explained = stream.explain(fault) if stream is not None and not of_model else None
        if explained is None and isinstance(fault, UnicodeDecodeError):
            raise
        if explained is None:
            told = _diagnostic(doing, compiled, fault)
            # Of a call that fails, TensorFlow may report no more than that others were cancelled.
            cancelled = isinstance(fault, tf.errors.CancelledError)
            given = cancelled or (of_model and isinstance(fault, tf.errors.InvalidArgumentError))
            found = search() if search is not None and given else None
            if found is not None and stream is not None:
                number, error = found
                if cancelled:
                    told = _diagnostic(doing, compiled, error)
                told = at_example(told, reason_of(error), stream, number, _inputs_of(compiled, name))
            explained = RunError(told)
        raise explained from fault


def located_examples(
    doing: str, engine: Engine, stream: Stream, used: int | None = None, *, predicts: bool = False
) -> AbstractContextManager[None]:
    """Do what `located` does in a session, and find the example with which the model fails.

    Args:
        used: How many examples may have been read; None for all.
        predicts: Whether the outputs of the model are computed, and not its losses and metrics.
    """
    search = partial(failing_example, engine, stream, used, predicts=predicts)
    return located(doing, engine.compiled, stream, engine.lost, search)


_NAMED = re.compile(r"\{\{node ([^}]+)\}\}")
_FUNCTION = re.compile(r"\{\{function_node ([^}]+)\}\} ?")


def _failed_ops(compiled: CompiledGraph, fault: Exception) -> list[str]:
    """Return the name of the op of the graph that has failed; none if it is one within a function of data.

    A session does not look for it in what functions of `make_callable` raise. Of a function of the model, any
    of the ops that run it may have failed, one in each clone.
    """
    if not isinstance(fault, tf.errors.OpError):
        return []
    if fault.node_def is not None:
        return [str(fault.node_def.name)]
    entries = compiled.ledger.entries
    names = _NAMED.findall(fault.message)[:1]
    if not names or names[0] in entries:
        return names
    whole, users = compiled.graph.as_graph_def(), defaultdict[str, list[str]](list)
    nodes = [(node.name, node) for node in whole.node if node.name in entries]
    nodes += [(each.signature.name, node) for each in whole.library.function for node in each.node_def]
    for user, node in nodes:
        for value in node.attr.values():
            for called in (value.func, *value.list.func):
                users[called.name].append(user)
    return [
        each for each in reached(_FUNCTION.findall(fault.message)[:1], users.__getitem__) if each in entries
    ]


def _diagnostic(doing: str, compiled: CompiledGraph, fault: tf.errors.OpError) -> Diagnostic:
    names = _failed_ops(compiled, fault)
    entries = [compiled.ledger.entries.get(each) for each in names]
    clone = entries[0].clone if entries and entries[0] is not None else None
    layer, span = _layer(compiled, next(iter(names), None), clone)
    op, clone = (names[0], clone) if len(names) == 1 else (None, None)
    return errors.step_failed(doing, reason_of(fault), span, clone=clone, layer=layer, op=op)


def _inputs_of(compiled: CompiledGraph, name: str | None) -> set[str]:
    """Return the inputs of the model that an op reads with nothing but operations between; else all."""
    model, entry = compiled.plan.model, compiled.ledger.entries.get(name or "")
    path, _ = _layer(compiled, name, entry.clone if entry is not None else None)
    read = {each.target for each in (*model.losses, *model.metrics)} if path is None else set[int]()
    for call in reversed(model.calls):
        layer = model.layers[call.layer]
        if layer.path == path or (layer.kind == "operation" and not read.isdisjoint(call.values)):
            read |= {*call.inputs}
    direct = {each.name for each in model.inputs if each.value in read}
    return direct or {each.name for each in model.inputs}


def _layer(compiled: CompiledGraph, name: str | None, clone: int | None) -> tuple[str | None, Span | None]:
    """Return the layer that an op belongs to, by its name in the tower, and its place in the spec.

    An op that updates a weight belongs to the layer of the weight. One of a loss or of a metric is in no
    layer, but has a place in the spec.
    """
    if name is None:
        return None, None
    scope = compiled.plan.towers[clone].scope if clone is not None else EVALUATION
    inner = name.removeprefix(f"{scope}/").removeprefix("gradients/").removeprefix("update/")
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
    spans = [*(each.span for each in model.losses), *(each.span for each in model.tensor_terms)]
    return spans[0] if len(spans) == 1 else compiled.plan.spec.model.span_of("loss")


ALWAYS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)
"""The status codes of a connection that breaks, of a session that a server does not know any more, of a wait
that took too long, and of variables without values. No fault of a spec or of its data has these codes."""

SOMETIMES = (
    tf.errors.NotFoundError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
"""The status codes of a resource that a server does not have any more, or of an incomplete answer; but also
of files that are missing, of Python code that fails, and of ops that fail."""


def is_lost_task(fault: BaseException, lost: Callable[[], bool] | None) -> bool:
    """Whether an error means that a task of a cluster was lost, or was started again without its variables.

    Args:
        lost: Asks the tasks whether one was lost, which is decisive if the status code of the error is not;
            None if the run needs this process alone.
    """
    if lost is None:
        return False
    return isinstance(fault, ALWAYS) or (isinstance(fault, SOMETIMES) and lost())


_NODE = re.compile(r"^Node: '.*'$", re.MULTILINE)
_SEVERAL = re.compile(r"^\d+ root error\(s\) found\.\n\s*\(0\) [A-Z_]+: *", re.MULTILINE)  # told one by one
_TASK = re.compile(r"^(?:[A-Z_]+: )?(?:From /job:\S+:|=+)\s*$", re.MULTILINE)  # where, not what
_HEADING = "Graph execution error:"  # says no more than that a graph ran
_REMOTE = re.compile(r"remote target /job:(\w+)/replica:\d+/task:(\d+)")
_BEHIND = re.compile(r"\n\t ?\[\[|\nOriginal stack trace|\nErrors may have originated| \[Op:\w+\]")


def reason_of(fault: Exception) -> str:
    """Return the reason that TensorFlow or the operating system gives for an error, on one line.

    If the connection to a task of a cluster broke, the line names that task.
    """
    if isinstance(fault, OSError):
        return system_reason(fault)
    if (task := task_that_refused(fault)) is not None:
        _, job, number = task.split("/")
        return f"{job[4:]}:{number[5:]} has taken a new request for one that it had already got"
    text = fault.message if isinstance(fault, tf.errors.OpError) else str(fault)
    # What comes before says where in Python the op was made.
    *_, said = _NODE.split(_FUNCTION.sub("", _TASK.sub("", text)))
    lines = [
        line.strip()
        for line in _BEHIND.split(_SEVERAL.sub("", said, count=1))[0].splitlines()
        if line.strip() not in {"", _HEADING}
    ]
    reason = lines[0] if lines else type(fault).__name__
    remote = _REMOTE.search(text)
    return f"{reason} (at {remote[1]}:{remote[2]})" if remote else reason


OUT_OF_RANGE = re.compile(
    r"(?:label value of|indices\[[\d, ]*\] =) (-?\d+) (?:which is outside the valid range of|is not in)"
    r" \[0, (\d+)\)"
)
"""What TensorFlow says of a number of a class, or of a row of a table, that is none."""


def completed(batches: Any, pipe: InputPipe, stream: Stream) -> Any:
    """Return batches with zeros for the inputs of a pipe that the stream does not feed."""
    there = {each.name for each in stream.fields}
    missing = [each for each in pipe.wanted if each.name not in there]

    def with_zeros(tensors: dict[str, Any]) -> dict[str, Any]:
        count = tf.shape(next(iter(tensors.values())))[0]
        zeros = {
            each.name: tf.zeros((count, *(1 if size is None else size for size in each.shape)), each.dtype)
            for each in missing
        }
        return {**tensors, **zeros}

    return batches.map(with_zeros) if missing else batches


def failing_example(
    engine: Engine, stream: Stream, used: int | None = None, *, predicts: bool = False
) -> tuple[int, Exception] | None:
    """Return the first example with which the model fails, in the order of the files, and the error.

    Returns:
        Its number, as `Stream.where` takes it, and the error; None if the model fails with none of them.
    """
    size = engine.compiled.plan.towers[0].batch
    batch = _first_failure(engine, stream, lambda: stream.in_order(size, used), predicts=predicts)
    if batch is None:
        return None
    start = batch[0] * size
    one = _first_failure(
        engine, stream, lambda: stream.in_order(1, start=start).take(size), predicts=predicts
    )
    return None if one is None else (start + one[0], one[1])


def _first_failure(
    engine: Engine, stream: Stream, batches: Callable[[], Any], *, predicts: bool
) -> tuple[int, Exception] | None:
    evaluation = engine.compiled.evaluation
    states = [each.states for each in evaluation.metrics.values()]
    scores = [[each.tensors for each in evaluation.losses], states]
    count = 0
    try:
        start = evaluation.pipe.attach(lambda: completed(batches(), evaluation.pipe, stream))
        engine.session.run(start)
        run = engine.session.make_callable(tf.nest.flatten(evaluation.outputs if predicts else scores))
        while True:
            run()
            count += 1
    except tf.errors.InvalidArgumentError as fault:
        return count, fault
    except tf.errors.OpError:  # the end, or a fault of something else
        return None


def at_example(
    told: Diagnostic, reason: str, stream: Stream, number: int, inputs: Collection[str]
) -> Diagnostic:
    """Return the diagnostic about a failure of the model, with the example that has caused it."""
    found = OUT_OF_RANGE.search(reason)
    if found is None:
        return evolve(told, notes=(f"it fails with {stream.where(number).words}", *told.notes))
    value, last = found[1], int(found[2]) - 1
    fault = out_of_range(
        stream.where_holding(number, int(value), inputs),
        value=value,
        reason=f"is outside the range of 0 to {last}",
    )
    label = (Label(told.span, f"takes 0 to {last}"),) if told.span is not None else ()
    return evolve(fault, labels=(*fault.labels, *label))
