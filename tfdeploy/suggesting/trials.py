"""Tries placements one by one: their steps are written from that of the spec, or their graphs are built."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from attrs import define, evolve, field, frozen

import grammar
from compiler.kinds.deployment.grid import NotAlikeError
from compiler.mapping.records import PlacementMap
from compiler.placement.rules import rule_text
from compiler.suggest.changes import Changes
from compiler.suggest.figures import Figures, Goal
from compiler.suggest.moved import devices_of_variables, moved_map, written_map
from compiler.suggest.outcome import Outcome, best_of
from compiler.suggest.steps.moved import move_step
from compiler.suggest.steps.result import Written
from compiler.suggest.steps.written import NotWrittenError, write_step
from dsl import syntax
from dsl.diagnostics import SpecError
from grammar.editing import with_rules, with_value
from tfdeploy.progress import busy
from tfdeploy.runtime.plans import SharedTowers
from tfdeploy.suggesting.many import MOST_BUILT, are_many, try_many
from tfdeploy.suggesting.reading import following_ops, origin_of, require_buildable

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Plan
    from compiler.step.step import Step
    from compiler.suggest.steps.origin import Origin
    from compiler.time.costs import Costs
    from compiler.time.profile import Profile
    from compiler.time.work import StepWork
    from compiler.topology import Topology
    from dsl import ir

USUAL_GPU, USUAL_CPU = "v100", "cpu"
"""The hardware that is assumed if neither a profile nor `devices.kind` says what there is."""


@frozen
class Tried:
    """A placement that was built or compared.

    Attributes:
        text: The spec with its rules.
        changes: What is not as in the spec.
        spec: The spec.
        plan: Its plan.
        outcome: What it comes to.
    """

    text: str = field(repr=False)
    changes: Changes
    spec: ir.Spec = field(repr=False)
    plan: Plan = field(repr=False)
    outcome: Outcome

    @property
    def figures(self) -> Figures:
        """All figures of it."""
        return self.outcome.figures

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules of its `place` block, as text."""
        return tuple(rule_text(each) for each in self.spec.place.rules)


@define
class Trials:
    """Placements of one spec that were tried.

    The graph of the spec is built, and the steps of other placements are written from its step. Only
    placements whose step cannot be written, as of updates that are not synchronous, are built. Of many clones
    that are alike, no placement is built with all of them.

    Attributes:
        spec: The spec as it is.
        tree: Its syntax tree.
        goal: What is to be low.
        profile: The profile of the machine, or None.
        overrides: Paths of the spec with other values, as `--set` has them.
        allow_python: Whether the spec may use Python of the user.
        verbose: Whether TensorFlow's own messages are shown.
        built: How many placements have been built.
        compared: How many placements have been compared without that.
        origin: The step of the spec, or None if steps cannot be written from it.
        costs: What ops cost, or None if that is not known.
        compiled: The graph of the spec as it is, once it is built; None if it has many clones that are alike.
        step: The step of that graph; if the spec has many clones that are alike, that of a few of them.
        first: The placement of the spec as it is, once it is built.
        left_out: What is changed by the placements that are not compared, because their clones are not alike
            and too many for a graph of all.
    """

    spec: ir.Spec = field(repr=False)
    tree: syntax.File = field(repr=False)
    goal: Goal
    profile: Profile | None = field(default=None, repr=False)
    overrides: Sequence[tuple[str, str]] = ()
    allow_python: bool = True
    verbose: bool = False
    built: int = 0
    compared: int = 0
    origin: Origin | None = field(default=None, repr=False)
    costs: Costs | None = field(default=None, repr=False)
    compiled: CompiledGraph | None = field(default=None, repr=False)
    step: Step | None = field(default=None, repr=False)
    first: Tried | None = field(default=None, repr=False)
    left_out: list[str] = field(factory=list, repr=False)
    _many: bool = False
    _towers: SharedTowers = field(factory=SharedTowers, repr=False)
    _seen: dict[str, Tried | None] = field(factory=dict, repr=False)
    _plain: Written | None = field(default=None, repr=False)  # the last step that others can be moved from

    def begin(self) -> Tried:
        """Build the spec as it is, from which the steps of other placements are written.

        Raises:
            SpecError: It cannot be built.
        """
        self.first = self._begin_with_many()
        if self.first is not None:
            self._seen[self.tree.source.text] = self.first
            return self.first
        built = first = self._build(Changes(), keep=True)
        written = None if self.origin is None else self._write(self.origin, built.plan)
        if written is not None and built.outcome.work is not None:
            # A written step can be a little shorter than that of the graph: like is compared with like.
            outcome = Outcome(written.work, self.costs, lambda: built.outcome.placement)
            first = evolve(built, outcome=outcome)
        self.first = self._seen[self.tree.source.text] = first
        return first

    def _begin_with_many(self) -> Tried | None:
        """Return the spec as it is, if it has many clones that are alike; else None."""
        text = self.tree.source.text
        plan = self.plan(self.read(text))
        if not are_many(plan):
            return None
        self._start()
        try:
            with busy(f"placing {len(plan.all_towers)} clones of {plan.spec.model.name} that are alike"):
                found = self._tried_with_many(text, Changes(), plan)
        except NotAlikeError:
            return None
        self._many = True
        return found

    def _tried_with_many(self, text: str, changes: Changes, plan: Plan) -> Tried:
        """Return a placement of many clones; the errors are those of `try_many`."""
        gc.collect()  # the graphs of the placement before, whose parts refer to each other
        found = try_many(plan, self.assumed(plan.topology), self.profile, self._towers, verbose=self.verbose)
        if self.step is None:
            self.step, self.costs = found.few, found.costs
        self.compared += 1
        placement = found.placement
        outcome = Outcome(found.work, found.costs, lambda: placement)
        return Tried(text, changes, plan.spec, found.plan, outcome)

    def compare(self, changes: Changes) -> Tried | None:
        """Return a placement, or None if a check refuses it.

        Args:
            changes: What is not as in the spec.
        """
        try:
            text = self.text(changes)
            if text not in self._seen:
                self._seen[text] = self._written(text, changes)
            found = self._seen[text]
            return None if found is None else evolve(found, changes=changes)
        except SpecError:
            return None

    def best_of(self, best: Tried, others: Iterable[Changes]) -> Tried:
        """Return the best of some placements.

        Args:
            best: The best placement so far.
            others: What is not as in the spec in the others.
        """
        tried = [each for each in map(self.compare, others) if each is not None]
        outcome = best_of(best.outcome, [each.outcome for each in tried], self.goal)
        if outcome is best.outcome:
            return best
        return next(each for each in tried if each.outcome is outcome)

    def _written(self, text: str, changes: Changes) -> Tried | None:
        """Return a placement by its step."""
        assert self.first is not None
        spec = self.read(text)
        plan = self.plan(spec)
        if plan.global_batch != self.first.plan.global_batch:
            return None  # `--set` has decided otherwise
        if self._many and len(plan.all_towers) <= MOST_BUILT:
            return self._build(changes)
        if self._many:
            try:
                return self._tried_with_many(text, changes, plan)
            except NotAlikeError:
                self.left_out.append(changes.text())
                return None
        moved = self._moved(changes, plan) if self.origin is None else self._rewritten(plan)
        if moved is None:
            return self._build(changes)
        work, make_map = moved
        self.compared += 1
        known = self.first.outcome
        same = known.work is not None and _is_same(work, known.work)
        return Tried(text, changes, spec, plan, known if same else Outcome(work, self.costs, make_map))

    def _rewritten(self, plan: Plan) -> tuple[StepWork, Callable[[], PlacementMap]] | None:
        """Return the step of a plan, written from that of the spec, and what makes its map."""
        assert self.origin is not None
        assert self.compiled is not None
        origin, first = self.origin, self.first
        assert first is not None
        require_buildable(self.compiled, plan)
        written = self._write(origin, plan)
        if written is None:
            return None
        placed = {each.info.weight for each in written.placements}
        assert placed == set(origin.weights), "every variable has a place"
        clones = {each.clone for each in written.work.ops if each.clone is not None}
        assert clones == {each.index for each in plan.towers}, "every clone has its ops"
        return written.work, lambda: written_map(_of_graph(first), origin, written)

    def _write(self, origin: Origin, plan: Plan) -> Written | None:
        """Return the step of a plan, moved from another one if that is possible; None if neither is."""
        written = None if self._plain is None else move_step(origin, self._plain, plan)
        if written is None:
            try:
                written = write_step(origin, plan)
            except NotWrittenError:
                return None
        if written.beside is not None:
            self._plain = written
        return written

    def _moved(self, changes: Changes, plan: Plan) -> tuple[StepWork, Callable[[], PlacementMap]] | None:
        """Return the step of a plan that only has whole variables elsewhere, and what makes its map."""
        first, step = self.first, self.step
        assert first is not None
        assert step is not None
        placements = [each.placement for each in step.variables.values()]
        infos = [each.info for each in placements]
        whole = not any(each.copies or each.info.shard for each in placements)
        only = not changes.values and changes.rules.keys() == {"variables"}
        homes = devices_of_variables(plan, infos) if whole and only else None
        if homes is None or first.outcome.work is None:
            return None
        work = first.outcome.work.moved(following_ops(step, homes))
        return work, lambda: moved_map(_of_graph(first), work, infos, homes)

    def _build(self, changes: Changes, *, keep: bool = False) -> Tried:
        """Build the spec with changes, and with `keep` write the steps of other placements from it."""
        text = self.text(changes)
        spec = self.read(text)
        compiled = self._compile(spec)
        from compiler.graph.forecasts.assumed_sizes import forecast_memory
        from compiler.graph.inspect.mapping.placement_map import map_placement

        with busy(f"forecasting placement {self.built + 1} of {self.spec.model.name}"):
            placement = map_placement(compiled, memory=forecast_memory(compiled))
            work, costs = self._work(compiled)
        self.built += 1
        self._require_everything(compiled, placement)
        if keep:
            self.compiled, self.step = compiled, compiled.step
            self.costs, self.origin = costs, origin_of(compiled, work)
        return Tried(text, changes, spec, compiled.plan, Outcome(work, costs, lambda: placement))

    def text(self, changes: Changes) -> str:
        """Return the text of the spec with changes."""
        text = self.tree.source.text
        if changes.rules:
            rules = [rule for of_role in changes.rules.values() for rule in of_role]
            text = with_rules(self.tree, changes.rules.keys(), rules)
        for (block, name), value in changes.values.items():
            text = with_value(self.reading(text).trees[0], block, name, value)
        return text

    def reading(self, text: str) -> grammar.Reading:
        """Read a text of the spec, with what it includes."""
        return grammar.read(self.tree.source.name, self.overrides, text=text, allow_python=self.allow_python)

    def read(self, text: str) -> ir.Spec:
        """Read a text of the spec.

        Raises:
            SpecError: It has errors.
        """
        reading = self.reading(text)
        if reading.spec is None:
            raise SpecError(reading.diagnostics)
        return reading.spec

    def plan(self, spec: ir.Spec) -> Plan:
        """Return the plan of a spec on this machine."""
        from tfdeploy.runtime.plans import plan_of

        return plan_of(spec, verbose=self.verbose)

    def _compile(self, spec: ir.Spec) -> CompiledGraph:
        from tfdeploy.runtime.adapted import adapted
        from tfdeploy.runtime.plans import graph_of

        plan = self.plan(spec)
        self._start()
        with busy(f"building placement {self.built + 1} of {spec.model.name}"):
            plan = adapted(plan, verbose=self.verbose)
            if any(each.free for each in plan.model.inputs):
                from compiler.graph.forecasts.assumed_sizes import with_sizes

                plan = with_sizes(plan)
            return graph_of(plan, verbose=self.verbose)

    def _start(self) -> None:
        from tfdeploy.runtime.start_tensorflow import start_tensorflow

        with busy("starting TensorFlow", plain=False):
            start_tensorflow(verbose=self.verbose)

    def _work(self, compiled: CompiledGraph) -> tuple[StepWork | None, Costs | None]:
        """Return the work of a step, and what it costs, if there can be a forecast of its time."""
        from compiler.step.read.work import timed_step
        from compiler.threads import cores
        from compiler.time.costs import choose_costs

        work, devices = timed_step(compiled.step), compiled.plan.spec.devices
        assumed = self.assumed(compiled.plan.topology)
        if assumed is not None:
            devices = evolve(devices, kind=assumed)
        return work, choose_costs(work, devices, self.profile, cores())

    def assumed(self, topology: Topology) -> str | None:
        """Return the hardware to assume, or None if a profile or the spec says what there is."""
        gpus = any(each.kind == "gpu" for each in topology.devices)
        if self.spec.devices.kind is not None or (self.profile is not None and not gpus):
            return None
        return USUAL_GPU if gpus else USUAL_CPU

    def _require_everything(self, compiled: CompiledGraph, placement: PlacementMap) -> None:
        """Assert that every op and every weight of the model has a place."""
        assert {each.name for each in placement.ops} == {
            each.name for each in compiled.graph.get_operations()
        }
        placed = {each.name if each.shard is None else each.shard.of for each in placement.variables}
        assert placed == {each.placement.info.weight for each in compiled.variables.values()}


def _of_graph(tried: Tried) -> PlacementMap:
    """Return the map of a placement whose graph was built."""
    assert isinstance(tried.outcome.placement, PlacementMap)
    return tried.outcome.placement


def _is_same(work: StepWork, other: StepWork) -> bool:
    """Whether two steps have the same ops on the same devices, and send the same."""
    if len(work.ops) != len(other.ops) or len(work.arrows) != len(other.arrows):
        return False
    return {(each.name, each.device) for each in work.ops} == {(each.name, each.device) for each in other.ops}
