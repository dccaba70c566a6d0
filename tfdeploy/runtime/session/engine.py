"""A compiled graph in a session: it is initialised, fed, trained and evaluated.

What runs once (the first step, initialisation, the first evaluation) also asks TensorFlow where it has
put each op, which the placement map then shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.adapters.tensorflow_private import fed_callable, is_op_determinism_enabled
from compiler.graph.compiled import CompiledGraph, TrainLoop
from compiler.graph.feeding import InputPipe
from compiler.graph.inspect.one_step import read_assigned
from compiler.graph.session_options import session_config
from compiler.graph.storage.saving import Saving, add_saving
from compiler.graph.variables.nodes import assign
from tfdeploy.data import Stream
from tfdeploy.runtime.session.checkpoint_files import ServerFiles
from tfdeploy.runtime.watchdog import Activity, HealthMonitor

PATIENCE = 2.0  # seconds that a server has to close a session
AVERAGE = "/ExponentialMovingAverage"  # ends the name of a weight's moving average in a checkpoint
_NOTHING: Mapping[Any, Any] = {}
T = TypeVar("T")


@frozen
class StepReport:
    """What is known of a step that was made."""

    loss: float  # the loss with regularisation, if the step was logged
    data_loss: float
    # The values of the metrics by name, if the step was logged.
    metrics: Mapping[str, float] = field(factory=dict)
    # The learning rate of each group of weights by its glob; empty if the report is of one clone alone.
    learning_rates: Mapping[str, float] = field(factory=dict)
    # A serialised `tf.compat.v1.Summary`, if the graph makes one.
    summary: bytes | None = field(default=None, repr=False)
    # The seconds until the examples of the step were ready; None if they are not measured.
    waited: float | None = None
    # Whether the variables have changed. Under `mixed_float16` a step whose gradients are not finite is
    # skipped, and changes the scale of the loss alone.
    applied: bool = True
    returned: Any = field(default=None, eq=False, repr=False)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> StepReport:
        """Return the report of what `Engine.report` fetches."""
        data_loss = float(values["data_loss"])
        metrics, rates = (named(values.get(each, {}).items()) for each in ("metrics", "rates"))
        waited = max((max(0.0, float(each)) for each in values["waits"]), default=None)
        loss, summary = float(values.get("loss", data_loss)), values.get("summary")
        return cls(
            loss, data_loss, metrics, rates, summary, waited, all(values["applied"]), values["returned"]
        )


@define
class Engine:
    """A session on a compiled graph that can train."""

    compiled: CompiledGraph = field(repr=False)
    session: Any = field(repr=False)
    saving: Saving = field(repr=False)
    # Monitors the tasks of a cluster, or the threads of its workers.
    monitor: HealthMonitor = field(factory=HealthMonitor, repr=False)
    activity: Activity = field(factory=Activity, repr=False)
    # Returns whether a task was lost since the session was opened; None without a cluster.
    lost: Callable[[], bool] | None = field(default=None, repr=False)
    files: ServerFiles = field(factory=ServerFiles, repr=False)
    # The full name of the device on which TensorFlow ran each op, by op name, as far as `traced` has seen it.
    assigned: dict[str, str] = field(factory=dict, repr=False)
    closing: float = PATIENCE
    # If it is set, steps are run with times of every op, and it is called with them.
    on_run_metadata: Callable[[Any], None] | None = field(default=None, repr=False)
    # The op that starts each stream, which is as old as the graph.
    starters: dict[Stream, Any] = field(factory=dict, repr=False)
    # Whether what is evaluated is as a checkpoint had it, of which other workers know nothing.
    restored: bool = False
    _kept: dict[str, Callable[..., Any]] = field(factory=dict, repr=False)  # what is run again and again
    _has_evaluated: bool = field(default=False, repr=False)

    @classmethod
    def start(cls, compiled: CompiledGraph) -> Engine:
        """Open a session in this process, and give every variable its initial value."""
        session = tf.compat.v1.Session(graph=compiled.graph, config=session_config(compiled.plan))
        engine = cls(compiled, session, add_saving(compiled))
        engine.initialise()
        return engine

    def initialise(self) -> None:
        """Give every variable its initial value."""
        self.traced(self.compiled.init_op)

    def progress(self) -> None:
        """Note progress, so that neither the watchdog nor the monitor reports a wait."""
        self.activity.note_progress()
        self.monitor.progress()

    def close(self) -> None:
        """Close the session, also if its server is gone."""
        close_session(self.session, self.closing)

    def traced(self, fetches: Any, feed: Mapping[Any, Any] | None = None) -> Any:
        """Run `fetches` once, return their values, and note on which devices TensorFlow has run the ops."""
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        values = self.session.run(fetches, feed, options=options, run_metadata=metadata)
        self.assigned |= read_assigned(self.compiled.graph, metadata)
        return values

    def fed_callable(
        self, fetches: Any, feeds: Sequence[Any], replaced: Mapping[Any, Any] = _NOTHING
    ) -> Callable[..., Any]:
        """Return a function of values to feed that runs `fetches` and returns their values.

        Args:
            fetches: The ops and tensors, in lists and dicts.
            feeds: The tensors that get values.
            replaced: The tensors in whose place others of the graph are put, which are the values here.
        """
        flat = tf.nest.flatten(fetches)
        names = [each.name for each in flat]
        distinct = {each.name: each for each in flat}
        tensors = [name for name, each in distinct.items() if isinstance(each, tf.Tensor)]
        run = fed_callable(self.session, list(distinct.values()), feeds, replaced)

        def fed(*values: Any) -> Any:
            returned = sent_again(lambda: run(*values), flat, replaced)
            found = dict(zip(tensors, returned, strict=True))
            return tf.nest.pack_sequence_as(fetches, [found.get(each) for each in names])

        return fed

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set variables, by their names in a checkpoint, to new values."""
        assign(self.session.run, self.compiled.saved, values)

    def start_from(self, weights: Mapping[str, Any]) -> None:
        """Set weights, their moving averages and all of their copies to new values.

        Averages that workers keep for themselves follow the weights that these take.
        """
        own = self.compiled.saved.keys() - {*self.compiled.kept_apart}
        averages = {f"{name}{AVERAGE}": value for name, value in weights.items()}
        self.assign({**weights, **{name: value for name, value in averages.items() if name in own}})
        self.session.run(self.compiled.after_restore_op)

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the values of variables, by their names in a checkpoint."""
        return self.saving.values(self.session.run, names)

    def has_only_read(self, refused: Refused) -> bool:
        """Whether a step that a server has refused has at most read examples."""
        entries = self.compiled.ledger.entries
        return all(each.name in entries and entries[each.name].role == "input" for each in refused.ran)

    # --- data ---------------------------------------------------------------------------------------------

    def feed(self, pipe: InputPipe, stream: Stream, *, training: bool) -> None:
        """Start `pipe` at the beginning of `stream`, which is repeated endlessly in training."""
        batch = pipe.size if pipe.size is not None else self.compiled.plan.towers[0].batch
        if stream not in self.starters:
            self.starters[stream] = pipe.attach(
                lambda: stream.batches(batch, repeat=training, drop_remainder=training)
            )
        self.start_pipe(pipe, stream)

    def start_pipe(self, pipe: InputPipe, stream: Stream, feed: Mapping[Any, Any] | None = None) -> None:
        """Start `pipe` with a stream that has a starter."""
        self.session.run(self.starters[stream], feed)
        self.session.run(pipe.puts)

    # --- steps --------------------------------------------------------------------------------------------

    def repeated(
        self,
        key: str,
        fetches: Callable[[], Any],
        feed: Mapping[Any, Any] | None = None,
        *,
        traced: bool = False,
        replaced: Mapping[Any, Any] = _NOTHING,
    ) -> Any:
        """Run what is run again and again, and return its values. The function for it is made once.

        If `traced`, nothing is replaced.
        """
        given = feed or {}
        if traced:
            return self.traced(fetches(), feed)
        if key not in self._kept:
            what = fetches()
            fed = bool(given or replaced)
            self._kept[key] = (
                self.fed_callable(what, list(given), replaced) if fed else self.session.make_callable(what)
            )
        return self._kept[key](*given.values())

    def step(self, *, logged: bool, traced: bool = False) -> StepReport:
        """Make one step; `traced` also notes the devices of its ops."""
        waits = [each for pipe in self.compiled.train_inputs for each in pipe.waits]
        return self.report(
            "step", self.compiled.train_op, logged=logged, traced=traced, waits=waits, profiled=True
        )

    def loop_step(self, loop: TrainLoop, *, traced: bool = False) -> StepReport:
        """Make an update of one clone alone (async). May be called from several threads."""
        waits = [] if loop.waited is None else [loop.waited]
        return self.report(f"clone {loop.clone}", loop.train_op, loop=loop, traced=traced, waits=waits)

    def report(
        self,
        key: str,
        op: Any,
        feed: Mapping[Any, Any] | None = None,
        *,
        loop: TrainLoop | None = None,
        logged: bool = True,
        traced: bool = False,
        waits: Sequence[Any] = (),
        profiled: bool = False,
        replaced: Mapping[Any, Any] = _NOTHING,
    ) -> StepReport:
        """Run the op of a step, of all clones or of one that trains alone."""
        compiled, take_times = self.compiled, self.on_run_metadata if profiled else None

        def fetches() -> dict[str, Any]:
            of = compiled if loop is None else loop
            found = {"returned": op, "data_loss": of.data_loss, "waits": [], "applied": []}
            if waits and not is_op_determinism_enabled():  # for which TensorFlow has no clock
                found["waits"] = list(waits)
            if loop is None and compiled.applied is not None:
                found["applied"] = [compiled.applied]
            if logged:
                found["metrics"] = {name: each.result for name, each in of.metrics.items()}
                found["loss"] = compiled.total_loss if loop is None else loop.loss
            if logged and loop is None:
                found["rates"] = dict(compiled.learning_rates)
                found |= {} if compiled.summary_op is None else {"summary": compiled.summary_op}
            return found

        if traced or take_times is None:
            name = f"{key}{' logged' * logged}"
            values = self.repeated(name, fetches, feed, traced=traced, replaced=replaced)
            return StepReport.of(values)
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        values = self.session.run(fetches(), options=options, run_metadata=metadata)
        take_times(metadata)
        return StepReport.of(values)

    def evaluate_batch(self) -> tuple[int, list[list[Any]], dict[str, list[Any]]]:
        """Evaluate the next batch of the evaluation's data.

        Returns:
            The number of examples, the parts of the loss, and the states of each metric by its name.

        Raises:
            tf.errors.OutOfRangeError: If there is no further batch.
        """
        evaluation, first = self.compiled.evaluation, not self._has_evaluated

        def fetches() -> list[Any]:
            states = {name: list(metric.states) for name, metric in evaluation.metrics.items()}
            return [evaluation.count, [list(each.tensors) for each in evaluation.losses], states]

        count, parts, values = self.repeated("evaluation", fetches, traced=first)
        self._has_evaluated = True
        self.activity.note_progress()
        return int(count), parts, values

    def publish(self) -> None:
        """Bring the shared variables up to date, if clones train copies of their own (local)."""
        if self.compiled.publish_op is not None and not self.restored:
            self.session.run(self.compiled.publish_op)

    def learning_rates(self) -> dict[str, float]:
        """Return the learning rate of each group of weights at the present step, by the glob of the group."""
        return named(self.session.run(dict(self.compiled.learning_rates)).items())

    def global_step(self) -> int:
        """Return the global step."""
        return int(self.session.run(self.saving.reads["global_step"]))


def named(values: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """Return plain floats by name; a metric that gives several has an entry `name[i]` for each."""
    found: dict[str, float] = {}
    for name, value in values:
        flat = np.asarray(value, np.float64)
        if flat.ndim == 0:
            found[name] = float(flat)
        else:
            found |= {f"{name}[{at}]": float(each) for at, each in enumerate(flat.ravel())}
    return found


def close_session(session: Any, patience: float = PATIENCE) -> None:
    """Close a session. Closing it again does nothing.

    TensorFlow waits for a server that is gone until the operations of a session time out, which is as long as
    `train.task_timeout`, and handles no signal meanwhile. So a session at a server is closed by a thread,
    which is left to itself after a while.
    """
    if not session.sess_str:
        _close(session)
        return
    thread = Thread(target=_close, args=(session,), name="close", daemon=True)
    thread.start()
    thread.join(patience)


def _close(session: Any) -> None:
    with suppress(tf.errors.OpError):
        session.close()


def peak_of_tensors(nodes: Iterable[Any]) -> int:
    """Return the most bytes of tensors that ops had allocated at once.

    What a kernel frees before it ends is scratch memory, not a tensor, and does not count: its size depends
    on the library of kernels, the instructions of the processor and the number of threads.

    Args:
        nodes: The NodeExecStats of a step on one or several devices, of which one process records the time.
    """
    alive = peak = 0
    for _, size in sorted(change for node in nodes for change in _changes(node)):
        alive += size
        peak = max(peak, alive)
    return peak


def _changes(node: Any) -> Iterator[tuple[int, int]]:
    """Yield the times and the bytes, negative if they are freed, of the tensors that an op has allocated."""
    end = node.all_start_micros + node.op_end_rel_micros
    records = [
        (each.alloc_micros, each.alloc_bytes) for memory in node.memory for each in memory.allocation_records
    ]
    scratch = Counter(-size for time, size in records if size < 0 and time <= end)
    for time, size in records:
        if size < 0 and time <= end:
            continue
        if size > 0 and scratch[size]:
            scratch[size] -= 1
            continue
        yield time, size


# --- requests that a server refuses ------------------------------------------------------------------------
#
# A server refuses a request whose number is among those of the last 100,000. TensorFlow draws the number of
# each run in a thread that it has just started, whose generator has one of 2^32 seeds. So every 43,000th
# request is refused although nobody has sent it before: `docs/adr/0011-refused-requests.md`.


_REFUSED = re.compile(r"^From /job:(\w+)/replica:\d+/task:(\d+):\s+The same RunGraph \(Worker\) request was ")
MOST_REFUSED = 5
"""How many times in a row a run is sent again. A second refusal is already as good as impossible."""

_HARMLESS = {
    "Assert",
    "BarrierReadySize",
    "ConditionalAccumulator",
    "FIFOQueueV2",
    "IteratorV2",
    "MutableHashTableV2",
    "HashTableV2",
    "Placeholder",
    "QueueSizeV2",
    "ReadVariableOp",
    "ResourceAccumulatorNumAccumulated",
    "ResourceConditionalAccumulator",
    "ResourceGather",
    "ResourceGatherNd",
    "StageSize",
    "VarHandleOp",
    "VarIsInitializedOp",
    "VariableShape",
}
"""The types of ops that TensorFlow counts as stateful, and that leave everything as it was."""

_HANDLES = {each for each in _HARMLESS if each.endswith(("QueueV2", "TableV2", "IteratorV2", "HandleOp"))}
_KNOWN_BEFORE = {"Shape", "ShapeN", "Size", "Rank", "ZerosLike", "OnesLike", "BroadcastGradientArgs"}
"""The types of ops that the graph optimizer may replace by a value that waits for nothing."""


class Refused(tf.errors.AbortedError):  # type: ignore[misc]  # TensorFlow says nothing of its types
    """A server has refused its part of a run.

    Attributes:
        ran: The ops of other servers that may have changed something nevertheless.
    """

    def __init__(self, fault: tf.errors.OpError, ran: Sequence[tf.Operation]) -> None:
        super().__init__(None, None, fault.message)
        self.ran = tuple(ran)


def task_that_refused(fault: BaseException) -> str | None:
    """Return the task that has refused its part of a run, such as `/job:ps/task:0`; else None."""
    found = _REFUSED.match(fault.message) if isinstance(fault, tf.errors.AbortedError) else None
    return None if found is None else f"/job:{found[1]}/task:{found[2]}"


def ran_without(
    ops: Iterable[tf.Operation], task: str, replaced: Mapping[tf.Tensor, tf.Tensor] = _NOTHING
) -> list[tf.Operation]:
    """Return the ops of a run that may have changed something although a task has refused its part.

    No op of that task has run, and so none that needs the value of one, or waits for one that changes
    something.

    Args:
        ops: The ops that were asked for.
        task: The task, such as `/job:ps/task:0`.
        replaced: The tensors in whose place others were put, which are the values here.
    """
    needed, after = dict[str, tf.Operation](), dict[str, list[tf.Operation]]()
    instead = {each.op.name: [other.op] for each, other in replaced.items()}
    pending = list(ops)
    while pending:
        op = pending.pop()
        if op.name in needed:
            continue
        needed[op.name] = op
        before = instead.get(op.name) or [*(each.op for each in op.inputs), *op.control_inputs]
        for each in before:
            after.setdefault(each.name, []).append(op)
        pending += before
    kept = set[str]()  # the ops that have not run
    pending = [op for op in needed.values() if _is_at(op, task) and _counts(op)]
    while pending:
        op = pending.pop()
        if op.name not in kept and op.type not in _KNOWN_BEFORE:
            kept.add(op.name)
            pending += after.get(op.name, [])
    return [each for each in needed.values() if _changes_something(each) and each.name not in kept]


def _is_at(op: tf.Operation, task: str) -> bool:
    job, number = task.rsplit("/", 1)
    return {job.strip("/"), number} <= {*op.device.split("/")}


def _counts(op: tf.Operation) -> bool:
    """Whether what needs an op waits for it in any case."""
    return op.op_def.is_stateful and op.type not in _HANDLES


def _changes_something(op: tf.Operation) -> bool:
    return op.op_def.is_stateful and op.type not in _HARMLESS


def sent_again(run: Callable[[], T], fetches: Any, replaced: Mapping[Any, Any] = _NOTHING) -> T:
    """Return what a run returns, which is sent again if a server has refused it and nothing has changed.

    Args:
        run: Sends the run.
        fetches: The ops and tensors of the run, in lists and dicts.
        replaced: The tensors in whose place others were put, which are the values here.

    Raises:
        Refused: If a server has refused its part of the run, and others may have done theirs.
    """
    for _ in range(MOST_REFUSED):
        try:
            return run()
        except tf.errors.AbortedError as fault:
            task = task_that_refused(fault)
            if task is None:
                raise
            if ran := ran_without(_ops_of(fetches), task, replaced):
                raise Refused(fault, ran) from fault
    return run()


def _ops_of(fetches: Any) -> list[tf.Operation]:
    return [getattr(each, "op", each) for each in tf.nest.flatten(fetches)]


class ServedSession(tf.compat.v1.Session):  # type: ignore[misc]  # TensorFlow says nothing of its types
    """A session at a server, whose runs are sent again as `sent_again` does."""

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Do what every session does."""
        once = super().run
        return sent_again(lambda: once(fetches, feed_dict, options, run_metadata), fetches)

    def make_callable(self, fetches: Any, *given: Any, **more: Any) -> Callable[..., Any]:
        """Do what every session does."""
        run = super().make_callable(fetches, *given, **more)
        return lambda *values: sent_again(lambda: run(*values), fetches)
