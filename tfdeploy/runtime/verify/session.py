"""A verification from beginning to end."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from compiler.compatibility import JOINING, MODES, keeps_all
from compiler.graph.compiled import CompiledGraph, TrainLoop
from compiler.graph.tower.template import WeightInfo
from compiler.graph.tower.traces import Traces
from compiler.pipeline import make_plan
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import plan as errors
from dsl.schema.functions import function_names
from tfdeploy.runtime.adapted import learn_states
from tfdeploy.runtime.plans import folder_of
from tfdeploy.runtime.session.steps import CloneThreads
from tfdeploy.runtime.verify.cases import (
    GLOBAL_BATCH,
    LAYOUTS,
    SLOTS_SHARDED,
    SPLITS,
    Case,
    SelectedCases,
    launched_spec,
    select_cases,
)
from tfdeploy.runtime.verify.compare import (
    PLAIN,
    Differences,
    Trajectory,
    alternating_towers,
    averaged_towers,
    compare,
    compressed_sums,
    evaluation_tower,
    one_tower,
    plain_of,
    run_steps,
    shifted,
    spread,
    train_case,
)
from tfdeploy.runtime.verify.examples import count_classes, make_examples, read_examples
from tfdeploy.runtime.verify.trial import Trial, TrialSetup, launched_servers, make_trial

ROUNDING = {
    "float32": 2.0**-23,
    "mixed_bfloat16": 2.0**-8,
    "mixed_float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float16": 2.0**-11,
    "power_sgd": 2.0**-23,
}
"""The relative change of weights that is lost when results are rounded, by precision and by compression."""

TOLERANCES = {name: 5e-2 if name.endswith("float16") else 1e-4 for name in ROUNDING}
"""The largest relative difference that rounding explains, likewise."""

SHIFTED = 4
"""How many more references, from weights that are changed by as much, show what rounding moves."""

THREADED_UPDATES = 5  # per clone, in threads that run at once
PERHAPS_WHOLE = frozenset({*JOINING, "Muon", "python"})
"""Optimizers whose update of an element may depend on others of its weight."""

COLLECT_EVERY = 20  # cases after which what graphs leave behind is collected


@frozen
class Options:
    """The options of a verification."""

    steps: int = 5
    quick: bool = False
    synthetic: bool = False  # whether the examples are made up, and not the spec's own
    # The largest relative difference that passes; None for that of the precision.
    tolerance: float | None = None
    launch: bool = False  # whether combinations for a cluster run on processes of this machine
    # Whether one of these processes is killed in each combination, which is then begun again.
    kill: bool = False
    flags: tuple[str, ...] = ()  # options of the command line for these processes
    # Called with the output of these processes.
    say: Callable[[str], None] = field(default=lambda _: None, eq=False, repr=False)


@frozen
class Outcome:
    """The outcome of one case."""

    case: Case
    differences: Differences
    seconds: float = field(eq=False)


@define
class Verification:
    """Verifies one spec."""

    spec: ir.Spec = field(repr=False)
    options: Options = field(factory=Options)
    setup: TrialSetup = field(init=False, repr=False)
    selected: SelectedCases = field(init=False, repr=False)
    weights: frozenset[str] = field(init=False, repr=False)
    # Whether results depend on how examples are spread over clones.
    depends_on_clones: bool = field(init=False)
    _references: dict[Any, Trajectory] = field(factory=dict, init=False, repr=False)
    _moved: dict[Any, dict[str, float]] = field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.spec.update.optimizers:
            raise SpecError([errors.no_optimizer(self.spec.update.span)])
        seed = self.spec.train.seed if self.spec.train.seed is not None else 1
        learnt = learn_states(make_plan(self.spec, emulate=True))
        states = {path: each.state for path, each in learnt.items()}
        setup = TrialSetup(Traces(str(folder_of(self.spec))), seed, {}, states=states)
        alone = Case("sync", PLAIN, "shared", (GLOBAL_BATCH,)).apply(self.spec)
        compiled = setup.compile(alone)
        towers = setup.traces.of(compiled.plan, seed)
        template = towers.templates[GLOBAL_BATCH]
        if template.seed is not None:
            raise SpecError([errors.random_numbers(self.spec.model.span)])
        self.weights = frozenset(compiled.weights)
        update = self.spec.update
        self.depends_on_clones = (
            update.reduce == "sum"
            or template.joins_examples
            or any(not self._is_whole(compiled.weights[each]) for each in template.state_updates)
        )
        setup = evolve(setup, arrays=self._examples(compiled, seed))
        with Trial(setup, alone) as trial:
            self.setup = evolve(setup, start=trial.values())
        sparse = any(each.indices is not None for each in template.gradients)
        size = sum(each.bytes for each in compiled.weights.values() if each.trainable)
        whole = not self.depends_on_clones
        self.selected = select_cases(
            self.spec,
            sparse=sparse,
            given=bool(template.given_weights),
            pack=max(size // 3, 64),
            quick=self.options.quick,
            whole=whole,
            launch=self.options.launch,
            uncut=self._uncut(compiled),
        )

    def _is_whole(self, state: WeightInfo) -> bool:
        """Whether a state gets the value that one tower would give it from the whole batch."""
        normalizes = self.spec.update.batch_norm == "synchronized" and not state.of_class
        return state.declared == "sum" or (normalizes and state.declared is None)

    @property
    def tolerance(self) -> float:
        """The largest relative difference that passes."""
        given = self.options.tolerance
        return max(TOLERANCES[each] for each in self._roundings) if given is None else given

    @property
    def _roundings(self) -> list[str]:
        """What rounds the results: the precision, and the compression."""
        update = self.spec.update
        return [update.precision, *([] if update.compress is None else [update.compress.name])]

    def outcomes(self) -> Generator[Outcome, None, None]:
        """Yield the outcome of every case; those of one mode, aggregation and placement come together."""
        if not self.options.launch:
            yield from self._outcomes()
            return
        spec, options = launched_spec(self.spec), self.options
        with launched_servers(spec, options.flags, options.say, kills=options.kill) as servers:
            self.setup = evolve(self.setup, servers=servers)
            yield from self._outcomes()

    def _outcomes(self) -> Iterator[Outcome]:
        cases = sorted(self.selected.cases, key=place_in_table)
        with evaluation_tower(self.setup, self.spec) as exported:
            for number, case in enumerate(cases, start=1):
                begun = time.perf_counter()
                differences = self._verify(case, exported)
                if number % COLLECT_EVERY == 0:
                    gc.collect()
                yield Outcome(case, differences, time.perf_counter() - begun)

    def _uncut(self, compiled: CompiledGraph) -> dict[str, str]:
        """Return why the variables or slots of the spec cannot be cut, by the placements that would."""
        needing = (each.constraint or each.regularizer for each in compiled.weights.values())
        names = {each.optimizer.name for each in self.spec.update.optimizers}
        found: dict[str, str] = {}
        if not any(needing) and names.isdisjoint(PERHAPS_WHOLE):
            return found
        for layout in ("sharded", SLOTS_SHARDED):
            case = Case("sync", PLAIN, layout, SPLITS[2][0])
            try:
                self.setup.compile(case.apply(self.spec))
            except SpecError as fault:
                found[layout] = fault.diagnostics[0].message
        return found

    def _examples(self, compiled: CompiledGraph, seed: int) -> dict[str, Any]:
        model, steps = compiled.plan.model, self.options.steps
        count = GLOBAL_BATCH * self.spec.update.accumulate * steps
        if not self.options.synthetic:
            return read_examples(self.spec, model, count, seed)
        returned = compiled.clones[0].outputs
        tensors = returned.values() if isinstance(returned, dict) else [returned]
        shapes = zip(model.outputs, (each.shape for each in tensors), strict=True)
        widths = {each.value: shape[-1] for each, shape in shapes if shape.rank and shape[-1] is not None}
        return make_examples(model, count_classes(model, widths), count, seed)

    def _verify(self, case: Case, exported: Trial) -> Differences:
        """Compare a case with its reference, and its evaluation with that of the weights it exports."""
        spec = case.apply(self.spec)
        attempt = partial(self._compare, case, spec, self._expected(case), exported)
        servers = self.setup.servers if spec.devices.jobs else None
        if servers is None:
            return attempt()
        return servers.verify(attempt, needs_servers=not keeps_all(spec))

    def _compare(self, case: Case, spec: ir.Spec, expected: Trajectory, exported: Trial) -> Differences:
        with make_trial(self.setup, spec) as trial:
            course = self._trajectory(case, trial)
            found = compare(course, expected, self.weights)
            if found.largest > self.tolerance:
                found = compare(course, expected, self.weights, self._moved_by_rounding(case), self.tolerance)
            exported.assign(trial.exported())
            batch = {name: array[:GLOBAL_BATCH] for name, array in self.setup.arrays.items()}
            found = found.with_evaluated(trial.evaluate(batch), exported.evaluate(batch))
            threads = case.mode == "async" and not case.between
            return (_count_in_threads(trial) if threads else None) or found

    def _trajectory(self, case: Case, trial: Trial) -> Trajectory:
        servers = self.setup.servers
        disturb = servers.disturb if servers is not None else lambda: None
        return train_case(trial, case, self.options.steps, disturb)

    def _expected(self, case: Case) -> Trajectory:
        """Return the reference of a case; cases with the same reference share it."""
        key = self._key(case)
        if key not in self._references:
            self._references[key] = self._reference(case, self.setup)
        return self._references[key]

    def _key(self, case: Case) -> Any:
        """Return what is the same for all cases with the same reference."""
        return (
            case.mode,
            case.updaters if case.mode == "async" else None,
            case.batches if case.mode == "local" or self._cut(case) or self._compressed(case) else None,
            (case.workers, case.leaves_gradients) if self._compressed(case) else 0,
            case.average_slots,
        )

    def _moved_by_rounding(self, case: Case) -> dict[str, float]:
        """Return how far rounding moves each variable of the reference of a case.

        The reference is trained again from weights that differ by less than rounding. What depends on them as
        a result should ends almost where it did. What is rounding alone, or is divided by it, does not.
        """
        key = self._key(case)
        if key not in self._moved:
            runs = [self._reference(case, self._shifted(seed)) for seed in range(SHIFTED)]
            self._moved[key] = spread([self._expected(case), *runs])
        return self._moved[key]

    def _shifted(self, seed: int) -> TrialSetup:
        """Return the setup with other weights to begin with, which rounding does not tell from its own."""
        generator, most = np.random.default_rng(seed), max(ROUNDING[each] for each in self._roundings)
        start = self.setup.start
        moved = {name: shifted(np.asarray(start[name]), generator, most) for name in self.weights}
        return evolve(self.setup, start={**start, **moved})

    def _cut(self, case: Case) -> bool:
        """Whether what a step computes depends on how the batch is cut up."""
        return self.depends_on_clones and case.clones > 1

    def _compressed(self, case: Case) -> bool:
        """Whether gradients are compressed."""
        return case.compression(self.spec) is not None

    def _reference(self, case: Case, setup: TrialSetup) -> Trajectory:
        steps = self.options.steps
        if self._compressed(case):
            return compressed_sums(setup, self.spec, case, steps)
        if case.mode == "async":
            return alternating_towers(setup, self.spec, case.updaters, steps)
        if case.mode == "local":
            return averaged_towers(setup, self.spec, case.batches, steps, slots=case.average_slots)
        if self._cut(case):
            return run_steps(setup, plain_of(self.spec, case.batches), steps)
        return one_tower(setup, self.spec, steps)


def place_in_table(case: Case) -> tuple[int, int, str, int]:
    """Return what cases are ordered by: mode, aggregation with its settings, and placement."""
    return (
        MODES.index(case.mode),
        function_names("aggregation").index(case.aggregate.name),
        case.aggregation,
        LAYOUTS.index(case.variables),
    )


def _count_in_threads(trial: Trial) -> Differences | None:
    """Let all clones update at the same time; return a difference if the global step is wrong afterwards."""
    before = int(trial.values()["global_step"])
    loops = trial.compiled.train_loops
    wanted = THREADED_UPDATES * len(loops)

    def update(loop: TrainLoop, first: bool) -> None:
        del first
        trial.session.run(loop.train_op)

    with closing(CloneThreads(loops, update)) as threads:
        threads.allow(wanted)
        for _ in range(wanted):
            threads.result()
    counted = int(trial.values()["global_step"]) - before
    if counted == wanted:
        return None
    return Differences(float("inf"), 0.0, 0.0, f"global_step counts {counted} of {wanted} updates")
