"""A run from its beginning to its end: what `compile-and-run` does."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import tensorflow as tf
from attrs import define, evolve, field

from compiler.compatibility import changing_job
from compiler.conditions import forecast_if_needed, require_expectations, time_if_needed, warnings_of
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.inspect.room import require_room
from compiler.graph.randomness import draw_seed
from compiler.graph.storage.keras_file import require_savable, write_keras_file
from compiler.graph.storage.saving import Saving, add_saving
from compiler.graph.storage.starting import starting_weights
from compiler.mapping.records import MapTime, PlacementMap
from compiler.plan import Plan, WorkerPlan
from compiler.process import memory_limit
from compiler.step.read.memory import StepMemory
from dsl import ir
from dsl.diagnostics import RunError, SpecError
from dsl.errors import plan as plan_errors
from dsl.errors import running as errors
from dsl.errors.files import output_is_read
from dsl.files.atomic import FOLDER
from tfdeploy.data import Stream
from tfdeploy.own_process import cleanup
from tfdeploy.runtime.adapted import adapted_for_run, require_one_graph
from tfdeploy.runtime.cluster.choose_target import crew_for, target_for
from tfdeploy.runtime.cluster.health import SelfMeasurement
from tfdeploy.runtime.cluster.monitor import cluster_record
from tfdeploy.runtime.cluster.prometheus import prometheus
from tfdeploy.runtime.cluster.replica_group import ReplicaGroup
from tfdeploy.runtime.cluster.roster import Changed, Crew, Replaced
from tfdeploy.runtime.cluster.session_target import SessionTarget
from tfdeploy.runtime.cluster.worker_group import WorkerGroup
from tfdeploy.runtime.cluster.worker_steps import ChangingLoop, loop_of
from tfdeploy.runtime.plans import Resume, RunOptions, folder_of, graph_of, plan_of, require_devices
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.effective import effective_text
from tfdeploy.runtime.records.files import replacing, write_atomically
from tfdeploy.runtime.records.history import History
from tfdeploy.runtime.records.lock import DirectoryGuard, guard_directory, locked
from tfdeploy.runtime.records.result import Clock, Result, SplitResult, Status
from tfdeploy.runtime.records.store import BrokenCheckpoint
from tfdeploy.runtime.session.checkpoints import Checkpoints, DamagedCheckpoint
from tfdeploy.runtime.session.data import (
    BEGINNING,
    feed_training,
    open_stream,
    require_readable,
    require_shares,
    splits_of,
)
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.session.faults import is_lost_task, reason_of
from tfdeploy.runtime.show.reporting import Reporter, StepRange, duration, number
from tfdeploy.runtime.stop import StopSignals
from tfdeploy.runtime.track.tracking import require_tracker, tracking
from tfdeploy.runtime.train.evaluation import BestTracker, Evaluations
from tfdeploy.runtime.train.events import Events, Profile
from tfdeploy.runtime.train.loop import Trainer, left_out, total_steps
from tfdeploy.runtime.watchdog import Activity, Watchdog, waiting_for

UNWRITABLE = "TFD733"
START, GO_ON = "to start training", "to go on from the last checkpoint"  # what tasks are waited for
MOST_FRUITLESS = 10  # attempts in a row to continue that end without a step while all tasks answer


def run_spec(spec: ir.Spec, options: RunOptions, stop: StopSignals) -> Result:
    """Train a spec in its run directory, which is locked meanwhile.

    A worker of a cluster that is not the chief has no run directory, and its result has the step alone.
    """
    plan = plan_of(spec, emulate=options.emulate, membership=options.membership)
    require_one_graph(plan)
    require_devices(plan)
    require_tracker(spec)
    activity = Activity(stop=stop)
    with Watchdog(activity, stop, options.reporter).watching():
        if changing_job(spec) is not None and options.membership is not None:
            return _come_and_go(plan, options, stop, activity)
        if isinstance(plan, WorkerPlan) and not plan.worker.is_chief:
            return run_worker(plan, options, stop, activity)
        return _run_in_directory(plan, options, stop, activity)


def _run_in_directory(
    plan: Plan, options: RunOptions, stop: StopSignals, activity: Activity, crew: Crew | None = None
) -> Result:
    spec = plan.spec
    directory, measurement = RunDirectory.of(spec), SelfMeasurement(activity)
    directory.make(spec)
    span = spec.train.span_of("directory")
    with (
        locked(directory.path, span) as lock,
        cleanup(lock.release),
        guard_directory(directory.path, span) as guard,
        cluster_record(directory, options.membership),
        prometheus(spec, options.membership, measurement, directory.path.name),
    ):
        roster = None if crew is None else crew.roster
        seed = roster.seed if roster is not None else _choose_seed(spec, directory, options.resume)
        try:
            return _Run(plan, directory, guard, options, stop, seed, activity, measurement, crew).run()
        except RunError as error:
            if error.diagnostic.code == UNWRITABLE:
                guard.require()  # if the directory is gone, that is the better message
            raise


def _choose_seed(spec: ir.Spec, directory: RunDirectory, resume: Resume) -> int:
    """Return the seed of the spec, else that of the run that is continued, else a new one."""
    if spec.train.seed is not None:
        return spec.train.seed
    whole = directory.store.whole() if resume != "never" else []
    return whole[0].manifest.seed if whole else draw_seed()


@define
class _Run:
    plan: Plan
    directory: RunDirectory
    guard: DirectoryGuard
    options: RunOptions
    stop: StopSignals
    seed: int
    activity: Activity = field(repr=False)
    measurement: SelfMeasurement = field(repr=False)
    crew: Crew | None = field(default=None, repr=False)
    clock: Clock = field(factory=Clock)
    memory: Mapping[str, StepMemory] = field(factory=dict, repr=False)  # its forecast by device, if needed
    time: MapTime | None = None  # the forecast, likewise
    assigned: dict[str, str] = field(factory=dict, repr=False)  # the device of each op that ran, by op name
    placement: PlacementMap | None = field(default=None, repr=False)
    placed: Mapping[str, str] = field(factory=dict, repr=False)  # what was assigned when it was made
    written: PlacementMap | None = field(default=None, repr=False)  # the map in the run directory

    @property
    def spec(self) -> ir.Spec:
        return self.plan.spec

    @property
    def reporter(self) -> Reporter:
        return self.options.reporter

    def run(self) -> Result:
        streams = {name: self._open(name, split) for name, split in splits_of(self.spec).items()}
        self.activity.causes |= {name: waiting_for(each.source) for name, each in streams.items()}
        require_readable(streams.values(), self.options.membership)
        total_steps(self.plan, streams["train"].size)  # raises the errors about the number of steps first
        self.stop.check()
        if self.crew is not None:
            return self._train_with(self.crew, streams)
        with target_for(
            self.plan, self.options, self.stop, streams["train"], self.measurement
        ) as open_target:
            compiled = self._compile()
            self.stop.check()
            with open_target(compiled) as target:
                saving = add_saving(compiled)
                return self._train_on(lambda: (compiled, saving, target), streams)

    def _train_with(self, crew: Crew, streams: Mapping[ir.SplitName, Stream]) -> Result:
        """Train with workers that come and go."""
        crew.stream = crew.stream or streams["train"]  # one alone, with which its graphs have been prepared
        streams = {**streams, "train": crew.stream}

        def opening() -> tuple[CompiledGraph, Saving, SessionTarget]:
            self.placement = None  # that of another graph
            with self.activity.doing("the wait for workers"):
                crew.call(self.seed, self.stop.check)
            return crew.opening()

        if crew.roster is not None:
            return self._train_on(opening, streams, GO_ON)
        self.plan = crew.plan(crew.first)
        self._compile(crew)
        return self._train_on(opening, streams)

    def _open(self, name: ir.SplitName, split: ir.Split) -> Stream:
        with self.activity.doing(f"reading the first example of `{name}`", split.source.span):
            inputs, training = self.plan.model.inputs, name == "train"
            stream = open_stream(self.plan, split, inputs, training=training, seed=self.seed)
            if training:
                require_shares(self.plan, stream)
            return stream

    def _compile(self, crew: Crew | None = None) -> CompiledGraph:
        begun = time.perf_counter()
        with self.reporter.busy(f"building the graph of {self.plan.model.name}"):
            goes_on = self.options.resume != "never" and bool(self.directory.store.whole())
            plan = adapted_for_run(self.plan, self.directory, goes_on=goes_on)
            if crew is None:
                compiled = graph_of(plan, seed=self.seed)
            else:
                compiled = crew.graph(crew.first, self.seed).compiled
            membership = self.options.membership
            launched = membership is not None and membership.launcher is not None
            require_room(compiled, memory_limit(), launched=launched)
            require_savable(compiled, base=str(folder_of(self.spec)))
            self.memory = forecast_if_needed(compiled)
            strange = warnings_of(compiled, self.memory)
        for each in strange:
            self.reporter.warn(each)
        self.time = time_if_needed(compiled)
        require_expectations(compiled, self.memory, self.time)
        self.clock.compile = time.perf_counter() - begun
        self.reporter.compiled(self._placement_of(compiled), self.plan.model.name, self.clock.compile)
        return compiled

    def _train_on(
        self,
        opening: Callable[[], tuple[CompiledGraph, Saving, SessionTarget]],
        streams: Mapping[ir.SplitName, Stream],
        why: str = START,
    ) -> Result:
        """Train, and continue from the newest checkpoint whenever a task was lost and has come back."""
        fruitless = 0
        while True:
            compiled, saving, target = opening()
            target.wait_for_tasks(why, self.stop.check)
            session, before = target.session(compiled), self.clock.examples
            engine = Engine(compiled, session, saving, assigned=self.assigned, starters=target.starters)
            engine.activity, group = self.activity, None
            try:
                with target.monitor.during("for the next step"), target.watched():
                    with self.activity.doing("setting the initial values of the variables"):
                        target.reach(engine, self.stop.check)
                        group = target.prepare(engine, self.stop, self.reporter.note)
                    result = self._train(engine, group, streams, recovering=why != START)
            except (RunError, SpecError):
                target.end(engine, group)
                raise
            except tf.errors.OpError as fault:
                idle = self.clock.examples == before and not isinstance(fault, Changed)
                fruitless = fruitless + 1 if idle else 0
                if not is_lost_task(fault, engine.lost) or fruitless == MOST_FRUITLESS:
                    raise RunError(errors.step_failed("training", reason_of(fault), None)) from fault
                if not isinstance(fault, Changed):
                    self.reporter.note(f"interrupted: {reason_of(fault)}")
                why = GO_ON
            else:
                target.end(engine, group)
                return result
            finally:
                engine.close()

    def _train(
        self,
        engine: Engine,
        group: WorkerGroup | None,
        streams: Mapping[ir.SplitName, Stream],
        *,
        recovering: bool = False,
    ) -> Result:
        self.guard.require()
        checkpoints = Checkpoints(self.directory.store, engine, self.spec.train.keep, guard=self.guard)
        wanted: Resume = "auto" if recovering else self.options.resume
        with self.activity.doing("restoring the newest checkpoint"):
            if isinstance(group, ReplicaGroup):
                resumed, examples = self._agree(group, checkpoints, wanted)
            else:
                resumed = self._resume(checkpoints, wanted)
                examples = checkpoints.newest.manifest.examples if checkpoints.newest is not None else 0
        self.activity.last_step = resumed
        history = self._repaired_history(resumed or 0)
        self.directory.tidy()
        wants_events = self.spec.train.summaries != "none"
        events = Events(
            self.directory.events, engine.compiled.graph, wants_events, (resumed or 0) + 1, self.guard
        )
        tracker = BestTracker.of(self.spec.train, self.directory.store.best)
        evaluations = Evaluations(
            engine, streams, history, events, self.reporter, self.stop, self.clock, tracker
        )
        if tracker is not None and resumed is not None and evaluations.watched is not None:
            tracker.resume(resumed, history.records, evaluations.watched, self.reporter.warn)
            checkpoints.best_step = tracker.best.step if tracker.best is not None else None
        trainer = Trainer(
            engine=engine,
            stream=streams["train"],
            evaluations=evaluations,
            checkpoints=checkpoints,
            history=history,
            events=events,
            reporter=self.reporter,
            stop=self.stop,
            clock=self.clock,
            after_first=lambda: self._show_placement(engine, events, (resumed or 0) + 1),
            step=resumed or 0,
            examples=examples,
            group=group,
        )
        last = total_steps(engine.compiled.plan, streams["train"].size, trainer.step, trainer.examples)
        if self.options.profile:
            folder, say = self.directory.profile, self.reporter.note
            trainer.profile = Profile(engine, folder, self.options.profile, say)
        try:
            return self._steps(trainer, last, resumed)
        except RunError as error:
            if engine.monitor.timed_out is error:
                self._save_what_is_there(trainer)
            raise
        except tf.errors.OpError:
            # A signal may end the wait for others, after which only a checkpoint has what was trained.
            if isinstance(group, ReplicaGroup) and group.is_alone:
                self._save_what_is_there(trainer)
            raise
        finally:
            self.reporter.ended()
            if trainer.profile is not None:
                trainer.profile.close()
            history.close()
            events.close()

    @staticmethod
    def _save_what_is_there(trainer: Trainer) -> None:
        """Write a checkpoint after a worker was missing for too long, which does not have the variables.

        In one graph the last step may be incomplete, so no checkpoint is written.
        """
        group = trainer.group
        if group is not None:
            with suppress(tf.errors.OpError, RunError):
                trainer.step, trainer.examples = group.counted()
                trainer.save()

    def _repaired_history(self, step: int) -> History:
        """Return the history up to the step from which the run continues."""
        history = History(self.directory.history, self.guard)
        broken = history.repair(step)
        if broken:
            self.reporter.warn(errors.history_mended(path=str(history.path), lines=broken))
        return history

    def _agree(self, group: ReplicaGroup, checkpoints: Checkpoints, wanted: Resume) -> tuple[int | None, int]:
        """Let all workers have the weights of the one that has made the most steps, or else of a checkpoint.

        Returns:
            The step from which training goes on, None for a new run, and the examples of the steps before.
        """
        with self.activity.doing("the wait until all workers have met", waiting=True):
            found = group.gather()
        if found is None:
            self.stop.check()
            return None, 0
        source, at = found
        resumed: int | None = at.step
        restored = False
        if wanted == "never" or at.made < 0:
            if group.standing().made > 0:
                group.start_anew()  # the checkpoint, if there is one, may lack something
            resumed = self._resume(checkpoints, wanted)
            newest, restored = checkpoints.newest, resumed is not None
            source = group.worker.index
            at = group.standing_after(resumed or 0, newest.manifest.examples if newest is not None else 0)
        else:
            checkpoints.go_on(at.step)
        group.hand_out(source, at)
        if restored:
            checkpoints.restore_apart()
        return resumed, at.examples

    def _resume(self, checkpoints: Checkpoints, wanted: Resume) -> int | None:
        """Restore the newest checkpoint if that is wanted, and return its step; None for a new run."""
        if wanted == "never":
            self._require_weights_elsewhere()
            self.directory.clear(self.spec)
        found = checkpoints.resume(self.reporter.warn)
        if found is None and wanted == "must":
            raise RunError(errors.no_checkpoint(directory=str(self.directory.store.directory)))
        if found is None:
            self._start_from_weights(checkpoints.engine)
            return None
        return found.step

    def _require_weights_elsewhere(self) -> None:
        """Raise RunError if the run is to start from the weights of a model that is about to be removed."""
        train, model = self.spec.train, self.directory.model
        files = [(each.file, each.span) for each in self.plan.model.starts]
        files += [(each.file, each.span) for each in train.part_weights]
        files += [(train.weights, train.span_of("weights"))] if train.weights is not None else []
        for file, span in files:
            if (folder_of(self.spec) / file).resolve() == model.resolve():
                raise RunError(
                    output_is_read(span, output=str(model), read=None if file == str(model) else file)
                )

    def _start_from_weights(self, engine: Engine) -> None:
        """Set the weights from which the spec wants training to start."""
        found = starting_weights(engine.compiled, folder_of(self.spec), self.reporter.note)
        if found:
            engine.start_from(found)

    def _steps(self, trainer: Trainer, last: int, resumed: int | None) -> Result:
        engine = trainer.engine
        spare = left_out(engine.compiled.plan, trainer.stream.size, trainer.examples)
        self.reporter.started(StepRange(trainer.step, last, str(self.directory.path), spare))
        there = self.directory.spec.exists() and self.directory.placement.exists()
        if trainer.step < last or not there:  # otherwise they are those of the run that has ended
            if not self.directory.holds_as_its_own(self.spec):
                self._write(self.directory.spec, effective_text(self.spec, self.directory.path))
            self._write_placement(engine)
        stop = self.stop
        with tracking(self.spec, self.directory, self.reporter, lambda: stop.received is not None):
            return self._steps_to(trainer, last, resumed)

    def _steps_to(self, trainer: Trainer, last: int, resumed: int | None) -> Result:
        """Make the steps, and write what the run comes to."""
        engine = trainer.engine
        owes = isinstance(trainer.group, ReplicaGroup) and trainer.group.owes
        if trainer.step < last or owes:
            trainer.events.draw_graph()
            with self.activity.doing(BEGINNING):
                feed_training(engine, trainer.stream, trainer.examples)
                if trainer.group is not None:
                    trainer.group.open(trainer.step, trainer.examples)
            trainer.train(last)
        self.reporter.ended()
        self._check(trainer, resumed)
        shown = self._go_to_best(trainer)
        trainer.evaluations.complete(shown)
        self._check(trainer, resumed)
        self._write_model(engine)
        result = self._finish(trainer, "finished", resumed, shown)
        self._require_value(trainer.evaluations)
        return result

    def _require_value(self, evaluations: Evaluations) -> None:
        """Warn of splits of which no evaluation counted; raise RunError if one was to tell the best."""
        for name in evaluations.streams:
            why = evaluations.without_any(name)
            if why is None:
                continue
            wanted = evaluations.tracker is not None and name == evaluations.watched
            span = (self.spec.train.span_of("best") or self.spec.train.span) if wanted else None
            diagnostic = errors.nothing_counted(name, why, span)
            if wanted:
                raise RunError(diagnostic)
            self.reporter.warn(diagnostic)

    def _go_to_best(self, trainer: Trainer) -> int:
        """Restore the best checkpoint if the spec asks for it; return the step of the variables."""
        best = trainer.tracker.best if trainer.tracker is not None else None
        if best is None or best.step == trainer.step:
            return trainer.step
        found = self.directory.store.find(best.step)
        if isinstance(found, BrokenCheckpoint):
            self.reporter.warn(errors.checkpoint_damaged(path=str(found.prefix), reason=found.reason))
            return trainer.step
        try:
            trainer.checkpoints.restore(found, self.reporter.warn)
        except DamagedCheckpoint as fault:
            self.reporter.warn(errors.checkpoint_damaged(path=str(found.prefix), reason=str(fault)))
            assert trainer.checkpoints.newest is not None  # the last step was saved
            trainer.checkpoints.restore(trainer.checkpoints.newest, self.reporter.warn)
            return trainer.step
        return best.step

    def _check(self, trainer: Trainer, resumed: int | None) -> None:
        """End the run if a signal has been received. A checkpoint has been written by now."""
        if self.stop.received is not None:
            status: Status = "interrupted" if self.stop.received.name == "SIGINT" else "terminated"
            self.stop.check(self._finish(trainer, status, resumed))

    def _show_placement(self, engine: Engine, events: Events, step: int) -> None:
        """Write the map with the devices on which ops have run, and warn if others were asked for."""
        placement = self._write_placement(engine)
        events.show_placement(placement, step)
        ops = placement.misplaced
        if ops:
            moves = Counter((op.requested, op.assigned or "") for op in ops)
            devices = self.spec.devices
            span = devices.span_of("soft_placement") if devices.soft_placement else None
            names = [op.name for op in ops[:3]]
            moved = [f"{number:,} from `{old}` to `{new}`" for (old, new), number in moves.items()]
            self.reporter.warn(plan_errors.ops_elsewhere(span, names=names, total=len(ops), moved=moved))

    def _write_placement(self, engine: Engine) -> PlacementMap:
        """Write the map, unless the file has just that one, and return it."""
        placement = self._placement_of(engine.compiled)
        if self.written is not placement or not self.directory.placement.exists():
            self._write(self.directory.placement, placement.to_json())
            self.written = placement
        return placement

    def _placement_of(self, compiled: CompiledGraph) -> PlacementMap:
        """Return the map with the devices on which ops have run so far."""
        if self.placement is None or self.placed != self.assigned:
            self.placed = dict(self.assigned)
            self.placement = map_placement(compiled, self.placed, self.memory, self.time)
        return self.placement

    def _write(self, path: Path, text: str) -> None:
        self.guard.require()
        write_atomically(path, text)

    def _write_model(self, engine: Engine) -> None:
        self.guard.require()
        with self.activity.doing("writing the model"), replacing(self.directory.model) as beside:
            folder, base = beside.with_name(beside.name + FOLDER), str(folder_of(self.spec))
            write_keras_file(engine.compiled, engine.saving, engine.session.run, beside, folder, base=base)

    def _finish(
        self, trainer: Trainer, status: Status, resumed: int | None, shown: int | None = None
    ) -> Result:
        """Write the outcome of the run, and the placement map as far as it is known by now."""
        if self.clock.first_step is not None:
            self._write_placement(trainer.engine)
        record = trainer.last_record or trainer.history.last("train")
        results = {
            name: SplitResult.of(scores)
            for name, (step, scores) in trainer.evaluations.scores.items()
            if step == (trainer.step if shown is None else shown)
        }
        result = Result(
            status=status,
            steps=trainer.step,
            loss=record.loss if record is not None else None,
            metrics=record.metrics if record is not None else {},
            examples_per_second=self.clock.examples_per_second,
            seconds=self.clock.seconds(),
            directory=str(self.directory.path),
            test=results.get("test"),
            validation=results.get("validation"),
            model=str(self.directory.model) if status == "finished" else None,
            resumed_from=resumed,
            best=trainer.tracker.best if trainer.tracker is not None else None,
            stopped_early=trainer.tracker is not None and trainer.tracker.is_over,
        )
        self._require_files(trainer, finished=status == "finished")
        self._write(self.directory.result, result.to_json(indent=1) + "\n")
        self.reporter.finished(result)
        return result

    def _require_files(self, trainer: Trainer, *, finished: bool) -> None:
        """Raise RunError if a file that this run has written does not exist any more."""
        trainer.history.require()
        newest = trainer.checkpoints.newest
        wanted = [self.directory.spec, self.directory.placement]
        wanted += [newest.prefix.with_name(f"{newest.prefix.name}.json")] if newest is not None else []
        wanted += [self.directory.model] if finished else []
        missing = [path for path in wanted if not path.exists()]
        if missing:
            raise RunError(errors.file_gone(self.guard.span, path=str(missing[0])))


# --- a run of a worker that is not the chief, in a process of its own -------------------------------------


def _come_and_go(plan: Plan, options: RunOptions, stop: StopSignals, activity: Activity) -> Result:
    """Train as a worker that comes and goes, and as the chief if it is the first of those that are there."""
    clock, spec = Clock(), plan.spec
    with crew_for(spec, options, SelfMeasurement(activity)) as (crew, server):
        loop = ChangingLoop(
            open_stream=lambda: _training_stream(plan, activity),
            stop=stop,
            reporter=options.reporter,
            activity=activity,
            crew=crew,
            is_over=lambda: server.published.finished,
        )
        while True:
            step = loop.train()
            if not loop.is_chief:
                return _worker_result(spec, step, clock, stop, options)
            if crew.roster is not None:
                options.reporter.note(f"{crew.membership.own.ref} is the chief from now on")
                options = evolve(options, resume="auto")
            with suppress(Replaced):
                return _run_in_directory(plan, options, stop, activity, crew)


def _training_stream(plan: Plan, activity: Activity) -> Stream:
    train = splits_of(plan.spec)["train"]
    with activity.doing("reading the first example of `train`", train.source.span):
        stream = open_stream(plan, train, plan.model.inputs, training=True, seed=plan.spec.train.seed)
        require_shares(plan, stream)
    activity.causes["train"] = waiting_for(stream.source)
    return stream


def run_worker(plan: Plan, options: RunOptions, stop: StopSignals, activity: Activity) -> Result:
    """Train as a worker that is not the chief; the result has the global step and the seconds alone."""
    clock, spec = Clock(), plan.spec
    stream = _training_stream(plan, activity)
    with target_for(plan, options, stop, stream, SelfMeasurement(activity)) as open_target:
        begun = time.perf_counter()
        with options.reporter.busy(f"building the graph of {plan.model.name}"):
            compiled = graph_of(plan)
        clock.compile = time.perf_counter() - begun
        stop.check()
        with open_target(compiled) as target:
            options.reporter.note(f"compiled in {duration(clock.compile)}")
            step = loop_of(compiled)(compiled, stream, target, stop, options.reporter, activity).train()
    return _worker_result(spec, step, clock, stop, options)


def _worker_result(spec: ir.Spec, step: int, clock: Clock, stop: StopSignals, options: RunOptions) -> Result:
    stop.check()
    options.reporter.note(f"training is over at step {number(step)}")
    return Result(
        status="finished",
        steps=step,
        loss=None,
        metrics={},
        examples_per_second=None,
        seconds=clock.seconds(),
        directory=str(RunDirectory.of(spec).path),
    )
