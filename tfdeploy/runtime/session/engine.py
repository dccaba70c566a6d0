"""A compiled graph in a session: it is initialised, fed, trained and evaluated.

What runs once (the first step, initialisation, the first evaluation) also asks TensorFlow where it has put
each op, which the placement map then shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.adapters.tensorflow_private import fed_callable, is_op_determinism_enabled
from compiler.graph.inspect.devices.assigned import read_assigned
from compiler.graph.session_options import session_config
from compiler.graph.storage.saving import Saving, add_saving
from compiler.graph.variables.cut_variable import assigning
from tfdeploy.runtime.session.checkpoint_files import CheckpointFiles, ServerFiles
from tfdeploy.runtime.session.closing import close_session
from tfdeploy.runtime.watchdog import Activity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from compiler.graph.compiled import CompiledGraph, TrainLoop
    from compiler.graph.inputs.iterators import InputPipe
    from tfdeploy.data import Stream
    from tfdeploy.runtime.session.health import HealthMonitor

AVERAGE = "/ExponentialMovingAverage"  # ends the name of a weight's moving average in a checkpoint


@frozen
class StepReport:
    """The report of a logged step.

    Attributes:
        loss: The loss with regularisation.
        data_loss: The loss without regularisation.
        metrics: The values of the metrics by name.
        learning_rates: The learning rate of each group of weights by its glob; empty if the report is of one
            clone alone.
        summary: A serialised `tf.compat.v1.Summary`, if the graph makes one.
        waited: The seconds until the examples of the step were ready; None if they are not measured.
    """

    loss: float
    data_loss: float
    metrics: Mapping[str, float]
    learning_rates: Mapping[str, float]
    summary: bytes | None = field(default=None, repr=False)
    waited: float | None = None


@define
class Engine:
    """A session on a compiled graph that can train.

    Attributes:
        compiled: The graph.
        session: The session.
        saving: The ops for checkpoints.
        monitor: Monitors the tasks of a cluster; None without one.
        activity: Is notified of all progress.
        lost: Returns whether a task was lost since the session was opened; None without a cluster.
        files: Writes and reads the files of checkpoints.
        applied: Whether the last step changed the variables. Under `mixed_float16` a step whose gradients
            are not finite is skipped, and changes the scale of the loss alone.
        waited: The seconds that the last step has waited for its examples; None if they are not measured.
        assigned: The full name of the device on which TensorFlow ran each op, by op name, as far as `traced`
            has seen it.
        on_run_metadata: If it is set, steps are run with times of every op, and it is called with them.
    """

    compiled: CompiledGraph = field(repr=False)
    session: Any = field(repr=False)
    saving: Saving = field(repr=False)
    monitor: HealthMonitor | None = None
    activity: Activity = field(factory=Activity, repr=False)
    lost: Callable[[], bool] | None = field(default=None, repr=False)
    files: CheckpointFiles = field(factory=ServerFiles, repr=False)
    applied: bool = True
    waited: float | None = None
    assigned: dict[str, str] = field(factory=dict, repr=False)
    on_run_metadata: Callable[[Any], None] | None = field(default=None, repr=False)
    _plain: Callable[..., Any] | None = field(default=None, repr=False)
    _logged: Callable[..., Any] | None = field(default=None, repr=False)
    _evaluated: Callable[..., Any] | None = field(default=None, repr=False)
    _loops: dict[int, Callable[..., Any]] = field(factory=dict, repr=False)
    _starters: dict[Stream, Any] = field(factory=dict, repr=False)

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
        if self.monitor is not None:
            self.monitor.progress()

    def close(self) -> None:
        """Close the session, also if its server is gone."""
        close_session(self.session)

    def traced(self, fetches: Any, feed: Mapping[Any, Any] | None = None) -> Any:
        """Run `fetches` once, return their values, and note on which devices TensorFlow has run the ops.

        Args:
            fetches: What `Session.run` takes: ops and tensors, also in lists, tuples and dicts.
            feed: The values that are fed, or None.
        """
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        values = self.session.run(fetches, feed, options=options, run_metadata=metadata)
        self.assigned |= read_assigned(self.compiled.graph, metadata)
        return values

    def fed_callable(self, fetches: Any, feeds: Sequence[Any]) -> Callable[..., Any]:
        """Return a function of values to feed that runs `fetches` and returns their values.

        Args:
            fetches: What `Session.run` takes: ops, whose values are None, and tensors, also in lists and
                dicts.
            feeds: The tensors that are fed.
        """
        flat = tf.nest.flatten(fetches)
        names = [each.name for each in flat]
        distinct = {each.name: each for each in flat}
        tensors = [name for name, each in distinct.items() if isinstance(each, tf.Tensor)]
        run = fed_callable(self.session, list(distinct.values()), feeds)

        def fed(*values: Any) -> Any:
            found = dict(zip(tensors, run(*values), strict=True))
            return tf.nest.pack_sequence_as(fetches, [found.get(each) for each in names])

        return fed

    def assign(self, values: Mapping[str, Any]) -> None:
        """Set variables, by their names in a checkpoint, to new values."""
        found = [assigning(self.compiled.saved[name], value) for name, value in values.items()]
        ops = [op for own, _ in found for op in own]
        self.session.run(ops, {given: value for _, feed in found for given, value in feed.items()})

    def start_from(self, weights: Mapping[str, Any]) -> None:
        """Set weights, their moving averages and all of their copies to new values."""
        averages = {f"{name}{AVERAGE}": value for name, value in weights.items()}
        saved = {
            **weights,
            **{name: value for name, value in averages.items() if name in self.compiled.saved},
        }
        self.assign(saved)
        self.session.run(self.compiled.after_restore_op)

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the values of variables, by their names in a checkpoint."""
        return self.saving.values(self.session.run, names)

    # --- data ---------------------------------------------------------------------------------------------

    def feed(self, pipe: InputPipe, stream: Stream, *, training: bool) -> None:
        """Start `pipe` at the beginning of `stream`, which is repeated endlessly in training.

        Args:
            pipe: The pipe of the graph.
            stream: The data of a split.
            training: Whether passes follow each other without end, in batches that are all full.
        """
        batch = pipe.size if pipe.size is not None else self.compiled.plan.towers[0].batch
        if stream not in self._starters:
            self._starters[stream] = pipe.attach(
                lambda: stream.batches(batch, repeat=training, drop_remainder=training)
            )
        self.session.run(self._starters[stream])
        self.session.run(pipe.puts)

    # --- steps --------------------------------------------------------------------------------------------

    def step(self) -> float:
        """Make one step and return its loss over the global batch, without regularisation."""
        if self._plain is None:
            compiled = self.compiled
            fetches = [compiled.data_loss, compiled.train_op, self._waits, self._whether_applied]
            self._plain = self.session.make_callable(fetches)
        loss, _, waits, applied = self._plain()
        self.applied, self.waited = all(applied), _longest(waits)
        return float(loss)

    def logged_step(self, *, traced: bool = False) -> StepReport:
        """Make one step and return its report; `traced` also notes the devices of its ops."""
        fetches = self._logged_fetches()
        if traced:
            values = self.traced(fetches)
        elif self.on_run_metadata is not None:
            metadata = tf.compat.v1.RunMetadata()
            options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
            values = self.session.run(fetches, options=options, run_metadata=metadata)
            self.on_run_metadata(metadata)
        else:
            if self._logged is None:
                self._logged = self.session.make_callable(fetches)
            values = self._logged()
        return self._report(values)

    def evaluate_batch(self) -> tuple[int, list[list[Any]], dict[str, list[Any]]]:
        """Evaluate the next batch of the evaluation's data.

        Returns:
            The number of examples, the parts of the loss, and the states of each metric by its name.

        Raises:
            tf.errors.OutOfRangeError: If there is no further batch.
        """
        evaluation = self.compiled.evaluation
        states = {name: list(metric.states) for name, metric in evaluation.metrics.items()}
        losses = [list(each.tensors) for each in evaluation.losses]
        fetches = [evaluation.count, losses, states]
        if self._evaluated is None:
            count, parts, values = self.traced(fetches)
            self._evaluated = self.session.make_callable(fetches)
        else:
            count, parts, values = self._evaluated()
        self.activity.note_progress()
        return int(count), parts, values

    def loop_step(self, loop: TrainLoop, *, traced: bool = False) -> StepReport:
        """Make an update of one clone alone (async). May be called from several threads.

        Args:
            loop: The ops of the clone.
            traced: Whether to note on which devices the ops run, as must be done in the first step of each
                clone.
        """
        metrics = [each.result for each in loop.metrics.values()]
        fetches = [loop.train_op, loop.loss, loop.data_loss, metrics, _timed(*_present(loop.waited))]
        run = self._loops.get(loop.clone)
        if traced:
            values = self.traced(fetches)
            self._loops[loop.clone] = self.session.make_callable(fetches)
        else:
            assert run is not None
            values = run()
        _, loss, data_loss, found, waits = values
        scores = named(zip(loop.metrics, found, strict=True))
        return StepReport(float(loss), float(data_loss), scores, {}, waited=_longest(waits))

    def publish(self) -> None:
        """Bring the shared variables up to date, if clones train copies of their own (local)."""
        if self.compiled.publish_op is not None:
            self.session.run(self.compiled.publish_op)

    def learning_rates(self) -> dict[str, float]:
        """Return the learning rate of each group of weights at the present step, by the glob of the group."""
        return named(self.session.run(dict(self.compiled.learning_rates)).items())

    def _logged_fetches(self) -> list[Any]:
        compiled = self.compiled
        fetches = [compiled.train_op, compiled.total_loss, compiled.data_loss]
        fetches += [each.result for each in compiled.metrics.values()]
        fetches += [*compiled.learning_rates.values(), *_present(compiled.summary_op)]
        return [*fetches, *self._whether_applied, self._waits]

    @property
    def _waits(self) -> list[Any]:
        return _timed(*(each for pipe in self.compiled.train_inputs for each in pipe.waits))

    @property
    def _whether_applied(self) -> list[Any]:
        return _present(self.compiled.applied)

    def _report(self, values: Sequence[Any]) -> StepReport:
        compiled = self.compiled
        _, total, data, *rest = values
        self.waited = _longest(rest.pop())
        self.applied = bool(rest.pop()) if compiled.applied is not None else True
        metrics = named(zip(compiled.metrics, rest, strict=False))
        rest = rest[len(compiled.metrics) :]
        rates = named(zip(compiled.learning_rates, rest, strict=False))
        rest = rest[len(rates) :]
        summary = rest.pop(0) if rest else None
        return StepReport(float(total), float(data), metrics, rates, summary, self.waited)

    def global_step(self) -> int:
        """Return the global step."""
        return int(self.session.run(self.saving.reads["global_step"]))


def _present(*fetches: Any) -> list[Any]:
    return [each for each in fetches if each is not None]


def _timed(*waits: Any) -> list[Any]:
    """Return `waits`; nothing in a process with deterministic ops, for which TensorFlow has no clock."""
    return [] if is_op_determinism_enabled() else list(waits)


def _longest(waits: Sequence[Any]) -> float | None:
    return max((max(0.0, float(each)) for each in waits), default=None)


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
