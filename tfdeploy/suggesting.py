"""Builds the placements that `suggest` compares."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, evolve, field, frozen

import grammar
from compiler.figures import size
from compiler.placement.rules import rule_text
from compiler.report.text.fullness import pools
from compiler.suggest.candidates import variable_rules
from compiler.suggest.figures import Figures, Goal, bound
from compiler.suggest.moved import devices_of_variables, moved_map
from compiler.suggest.text import Suggestion
from compiler.suggest.tower import ROOM, read_layers, rules_of, split_tower, variable_rules_of
from compiler.time.profile import find_profile
from dsl.diagnostics import SpecError
from grammar.placing import with_rules
from tfdeploy.progress import busy

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.mapping.records import PlacementMap
    from compiler.plan import Plan
    from compiler.time.costs import Costs
    from compiler.time.forecast import StepForecast
    from compiler.time.profile import Profile
    from compiler.time.work import StepWork
    from compiler.topology import Device, Topology
    from dsl import ir, syntax

Changes: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""The new rules of each role."""

CLOSE = 1.02
"""A placement that was only compared is built if it comes to less than this part of the best one."""

USUAL_GPU, USUAL_CPU = "v100", "cpu"
"""The hardware that is assumed if neither a profile nor `devices.kind` says what there is."""


@frozen
class Tried:
    """A placement that was built.

    Attributes:
        text: The spec with its rules.
        changes: The rules that are not those of the spec, by role.
        rules: All rules of its `place` block, as text.
        figures: What it comes to.
        compiled: Its graph.
        placement: Its map.
        work: The work of a step, or None if its time cannot be forecast.
        costs: What ops cost, or None.
    """

    text: str = field(repr=False)
    changes: Changes
    rules: tuple[str, ...]
    figures: Figures
    compiled: CompiledGraph = field(repr=False)
    placement: PlacementMap = field(repr=False)
    work: StepWork | None = field(repr=False)
    costs: Costs | None = field(repr=False)


@define
class Suggester:
    """Builds placements of one spec, one after the other, and keeps the best.

    Attributes:
        spec: The spec as it is.
        tree: Its syntax tree.
        overrides: Paths of the spec with other values, as `--set` has them.
        allow_python: Whether the spec may use Python of the user.
        verbose: Whether TensorFlow's own messages are shown.
        goal: What is to be low.
        profile: The profile of the machine, or None.
        groups: The number of devices that each clone is to have, or None to leave that as it is.
        tried: How many placements have been built.
        compared: How many placements have been compared without that.
    """

    spec: ir.Spec = field(repr=False)
    tree: syntax.File = field(repr=False)
    goal: Goal
    profile: Profile | None = field(repr=False)
    overrides: Sequence[tuple[str, str]] = ()
    allow_python: bool = True
    verbose: bool = False
    groups: int | None = None
    tried: int = 0
    compared: int = 0

    def run(self) -> tuple[Suggestion, str]:
        """Build placements.

        Returns:
            What was found, and the text of the spec with the best rules.

        Raises:
            SpecError: The spec as it is cannot be built.
            NoForecastError: The goal is the time of a step, of which there is no forecast.
        """
        first = self._build({})
        first.figures.value(self.goal)
        best = basis = first
        if self.groups is not None:
            kind = first.compiled.plan.towers[0].device.kind
            rule = f"clones -> groups({kind}[*], size = {self.groups})"
            basis = self._build({"clones": (rule,), "ops": ()})
            best = self._better_of(best, basis)
        for changes in self._splits(basis):
            best = self._better_of(best, self._try(changes))
        for rule in variable_rules(first.compiled.plan.topology):
            changes = {**best.changes, "variables": (rule,)}
            if self._promises(best, changes):
                best = self._better_of(best, self._try(changes))
        best = self._simplest(best)
        return self._suggestion(first, best), best.text

    def _simplest(self, best: Tried) -> Tried:
        """Return the placement without changes that make nothing better."""
        for role in tuple(best.changes) if len(best.changes) > 1 else ():
            without = self._try({each: rules for each, rules in best.changes.items() if each != role})
            if without is not None and not best.figures.better_than(without.figures, self.goal):
                best = without
        return best

    def _better_of(self, best: Tried, other: Tried | None) -> Tried:
        return other if other is not None and other.figures.better_than(best.figures, self.goal) else best

    def _splits(self, basis: Tried) -> Iterator[Changes]:
        """Yield the best split of a tower over its group, with variables as they are and with layers."""
        tower = basis.compiled.plan.towers[0]
        if len(tower.devices) == 1 or basis.work is None or basis.costs is None:
            return
        sizes: dict[str, int] = {}
        for variable in basis.compiled.variables.values():
            info = variable.placement.info
            sizes[info.weight] = sizes.get(info.weight, 0) + info.bytes + info.slot_bytes
        layers = read_layers(basis.work, basis.costs, tower, sizes)
        by_bytes = self.goal is not Goal.STEP_TIME
        memory = self.spec.devices.gpu_memory if tower.device.kind == "gpu" else None
        places = split_tower(layers, basis.costs, tower, by_bytes=by_bytes, capacity=memory or ROOM)
        changes = {**basis.changes, "ops": rules_of(places)}
        yield changes
        yield {**changes, "variables": variable_rules_of(places, sizes)}

    def _promises(self, best: Tried, changes: Changes) -> bool:
        """Whether a placement may be better than the best one; it is built only then.

        If it only moves whole variables, their ops are moved in the step of the best one. What the tensors of
        a step need on each device is then taken from that, so that a close one is built to be sure.
        """
        try:
            plan = self._plan(self._read(self._text(changes)))
        except SpecError:
            return False
        variables = best.compiled.variables.values()
        infos = [each.placement.info for each in variables]
        whole = not any(each.placement.copies or each.placement.info.shard for each in variables)
        homes = devices_of_variables(plan, infos) if whole else None
        if homes is None:
            return True
        self.compared += 1
        work = None if best.work is None else best.work.moved(following_ops(best.compiled, homes))
        time = None if work is None or best.costs is None else self._forecast(work, best.costs)
        moved = moved_map(best.placement, work, infos, homes) if work is not None else best.placement
        figures = Figures.of(moved, time)
        if figures.missing != best.figures.missing:
            return figures.missing < best.figures.missing
        return figures.value(self.goal) < CLOSE * best.figures.value(self.goal)

    def _forecast(self, work: StepWork, costs: Costs) -> StepForecast:
        from compiler.time.forecast import forecast_step

        return forecast_step(work, costs)

    def _try(self, changes: Changes) -> Tried | None:
        """Build a placement; None if a check refuses it."""
        try:
            return self._build(changes)
        except SpecError:
            return None

    def _build(self, changes: Changes) -> Tried:
        """Build the spec with other rules for some roles."""
        text = self._text(changes)
        spec = self._read(text)
        compiled = self._compile(spec)
        from compiler.graph.inspect.mapping.placement_map import map_placement
        from compiler.graph.inspect.memory.forecast import forecast_step_memory

        with busy(f"forecasting placement {self.tried + 1} of {self.spec.model.name}"):
            placement = map_placement(compiled, memory=forecast_step_memory(compiled))
            work, costs, time = self._time(compiled)
        self.tried += 1
        self._require_everything(compiled, placement)
        return Tried(
            text,
            changes,
            tuple(rule_text(each) for each in spec.place.rules),
            Figures.of(placement, time),
            compiled,
            placement,
            work,
            costs,
        )

    def _text(self, changes: Changes) -> str:
        """Return the text of the spec with other rules for some roles."""
        rules = [rule for of_role in changes.values() for rule in of_role]
        return with_rules(self.tree, changes.keys(), rules) if changes else self.tree.source.text

    def _read(self, text: str) -> ir.Spec:
        """Read a text of the spec.

        Raises:
            SpecError: It has errors.
        """
        reading = grammar.read(
            self.tree.source.name,
            self.overrides,
            text=text,
            allow_python=self.allow_python,
        )
        if reading.spec is None:
            raise SpecError(reading.diagnostics)
        return reading.spec

    def _plan(self, spec: ir.Spec) -> Plan:
        from tfdeploy.runtime.plans import plan_of

        return plan_of(spec, verbose=self.verbose)

    def _compile(self, spec: ir.Spec) -> CompiledGraph:
        from tfdeploy.runtime.adapted import adapted
        from tfdeploy.runtime.plans import graph_of

        plan = self._plan(spec)
        from tfdeploy.runtime.start_tensorflow import start_tensorflow

        with busy("starting TensorFlow", plain=False):
            start_tensorflow(verbose=self.verbose)
        with busy(f"building placement {self.tried + 1} of {spec.model.name}"):
            return graph_of(adapted(plan, verbose=self.verbose), verbose=self.verbose)

    def _time(self, compiled: CompiledGraph) -> tuple[StepWork | None, Costs | None, StepForecast | None]:
        """Return the work of a step, what it costs, and the forecast of its time, if there can be one."""
        from compiler.graph.inspect.time.timed_step import timed_step
        from compiler.graph.session_options import cores
        from compiler.time.costs import choose_costs

        work, devices = timed_step(compiled), compiled.plan.spec.devices
        assumed = self._assumed(compiled.plan.topology)
        if assumed is not None:
            devices = evolve(devices, kind=assumed)
        costs = choose_costs(work, devices, self.profile, cores())
        return work, costs, None if costs is None else self._forecast(work, costs)

    def _assumed(self, topology: Topology) -> str | None:
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

    def _suggestion(self, first: Tried, best: Tried) -> Suggestion:
        from compiler.conditions.expect import largest_variables, memory_parts

        assumed = self._assumed(first.compiled.plan.topology)
        estimate = ""
        if assumed is not None and first.figures.seconds is not None:
            estimate = f"times are estimates for the hardware `{assumed}`: there is no profile and no `kind`"
        largest = [
            f"{device.ref}: {line}"
            for pool in pools(best.placement)
            if pool.excess > 0
            for device in pool.devices
            for line in (
                f"{size(pool.needed)} are needed, {size(pool.excess)} more than there are",
                *memory_parts(device),
                *largest_variables(device.ref, best.placement),
            )
        ]
        return Suggestion(
            self.tree.source.name,
            self.goal,
            best.rules,
            first.figures,
            best.figures,
            bound(self.goal, first.placement, first.work, first.costs),
            self.tried,
            self.compared,
            estimate,
            tuple(largest),
        )


def suggest(
    path: str | os.PathLike[str],
    goal: str = Goal.STEP_TIME,
    *,
    groups: int | None = None,
    profile: str | os.PathLike[str] | None = None,
) -> Suggestion:
    """Search for placement rules of a spec that are better, as `tfdeploy suggest` does.

    Args:
        path: The file of the spec. It is not changed.
        goal: What is to be low: `step_time`, `memory` or `balance`.
        groups: Also try clones that have so many devices each.
        profile: The file of a profile; by default the one beside the spec, if there is one.

    Returns:
        What was found: the rules, and what they come to before and after.

    Raises:
        SpecError: The spec has errors, or cannot be built.
        RunError: If the file is no profile.
        NoForecastError: The goal is the time of a step, of which there is no forecast.
    """
    reading = grammar.read(os.fspath(path))
    if reading.spec is None:
        raise SpecError(reading.diagnostics)
    machine = find_profile(reading.spec.path, None if profile is None else os.fspath(profile))
    known = None if machine is None else machine.profile
    return Suggester(reading.spec, reading.trees[-1], Goal(goal), known, groups=groups).run()[0]


def following_ops(compiled: CompiledGraph, homes: Mapping[str, Device]) -> dict[str, Device]:
    """Return the new devices of the ops that are beside a variable, and of the variables themselves."""
    found = {
        name: homes[entry.placed.reason.text]
        for name, entry in compiled.ledger.entries.items()
        if entry.placed.reason.kind == "follows" and entry.placed.reason.text in homes
    }
    for name, variable in compiled.variables.items():
        found |= {copy.handle.op.name: homes[name] for copy in variable.copies}
    return found
