"""Compares the placements that `suggest` tries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from attrs import define, evolve, field, frozen

import grammar
from compiler.collector import collector_paused
from compiler.figures import size
from compiler.placement.rules import rule_text
from compiler.report.text.fullness import pools
from compiler.suggest import variations
from compiler.suggest.candidates import variable_rules
from compiler.suggest.changes import Changes
from compiler.suggest.figures import Figures, Goal, bound, least_time
from compiler.suggest.moved import devices_of_variables, moved_map, written_map
from compiler.suggest.steps.written import NotWrittenError, write_step
from compiler.suggest.text import Suggestion
from compiler.suggest.tower import ROOM, read_layers, rules_of, split_tower, variable_rules_of
from compiler.time.forecast import forecast_of, forecast_step, seconds_of
from compiler.time.profile import find_profile
from compiler.time.simulate import simulate_until
from dsl import syntax
from dsl.diagnostics import SpecError
from grammar.placing import with_rules
from grammar.setting import with_value
from tfdeploy.progress import busy
from tfdeploy.suggesting.reading import origin_of, require_buildable

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.mapping.records import PlacementMap
    from compiler.plan import Plan
    from compiler.suggest.steps.origin import Origin
    from compiler.time.costs import Costs
    from compiler.time.forecast import StepForecast
    from compiler.time.profile import Profile
    from compiler.time.work import StepWork
    from compiler.topology import Device, Topology
    from dsl import ir

USUAL_GPU, USUAL_CPU = "v100", "cpu"
"""The hardware that is assumed if neither a profile nor `devices.kind` says what there is."""

ROUNDS = 3
"""How often all parts are varied at most: what is best for one may depend on another."""


class CannotEditError(Exception):
    """The text of a spec cannot be changed as a placement needs it."""


@frozen
class Tried:
    """A placement that was built or compared.

    Attributes:
        text: The spec with its rules.
        changes: What is not as in the spec.
        spec: The spec.
        plan: Its plan.
        figures: What it comes to.
        placement: Its map.
        work: The work of a step, or None if its time cannot be forecast.
    """

    text: str = field(repr=False)
    changes: Changes
    spec: ir.Spec = field(repr=False)
    plan: Plan = field(repr=False)
    figures: Figures
    placement: PlacementMap = field(repr=False)
    work: StepWork | None = field(repr=False)

    @property
    def rules(self) -> tuple[str, ...]:
        """All rules of its `place` block, as text."""
        return tuple(rule_text(each) for each in self.spec.place.rules)


@define
class Suggester:
    """Compares placements of one spec, and keeps the best.

    The graph of the spec is built, and the steps of other placements are written from its step. Only
    placements whose step cannot be written, as of updates that are not synchronous, are built.

    Attributes:
        spec: The spec as it is.
        tree: Its syntax tree.
        overrides: Paths of the spec with other values, as `--set` has them.
        allow_python: Whether the spec may use Python of the user.
        verbose: Whether TensorFlow's own messages are shown.
        goal: What is to be low.
        profile: The profile of the machine, or None.
        groups: The number of devices that each clone is to have, or None.
        vary: What is varied besides rules for layers and variables; see `compiler.suggest.variations`.
        tried: How many placements have been built.
        compared: How many placements have been compared without that.
        origin: The step of the spec, or None if steps cannot be written from it.
        costs: What ops cost, or None if that is not known.
        compiled: The graph of the spec as it is, once it is built.
        first: The placement of the spec as it is, once it is built.
    """

    spec: ir.Spec = field(repr=False)
    tree: syntax.File = field(repr=False)
    goal: Goal
    profile: Profile | None = field(repr=False)
    overrides: Sequence[tuple[str, str]] = ()
    allow_python: bool = True
    verbose: bool = False
    groups: int | None = None
    vary: Sequence[str] = ()
    tried: int = 0
    compared: int = 0
    origin: Origin | None = field(default=None, repr=False)
    costs: Costs | None = field(default=None, repr=False)
    compiled: CompiledGraph | None = field(default=None, repr=False)
    first: Tried | None = field(default=None, repr=False)
    _seen: dict[str, Tried | None] = field(factory=dict, repr=False)

    def run(self) -> tuple[Suggestion, str]:
        """Compare placements.

        Returns:
            What was found, and the text of the spec with the best rules.

        Raises:
            SpecError: The spec as it is cannot be built.
            NoForecastError: The goal is the time of a step, of which there is no forecast.
            CannotEditError: What would change is in another file.
        """
        self._require_own_blocks()
        first = self.first = self._build(Changes(), keep=True)
        first.figures.value(self.goal)
        with busy(f"comparing placements of {self.spec.model.name}"), collector_paused():
            best = self._search(first)
        if not only_changes(first.spec, best.spec, best.changes):
            raise CannotEditError("the text of the spec cannot be changed without changing something else")
        return self._suggestion(first, best), best.text

    def _require_own_blocks(self) -> None:
        """Raise CannotEditError if what would change is in a file that the spec includes."""
        changed = {"place"} | {"clones" for each in ("clones", "groups") if each in self.vary or self.groups}
        changed |= {"update" for each in ("aggregate", "pack") if each in self.vary}
        for tree in self._reading(self.tree.source.text).trees[1:]:
            for item in tree.items:
                if isinstance(item, syntax.Block) and item.kind in changed:
                    message = (
                        f"the block `{item.kind}` is in `{tree.source.name}`, which "
                        f"`{self.tree.source.name}` includes; `suggest` changes blocks of the file itself "
                        "only, so move it there"
                    )
                    raise CannotEditError(message)

    def _search(self, first: Tried) -> Tried:
        """Return the best of all placements that are tried."""
        best = first
        for changes in self._splits(first):
            best = self._better_of(best, changes)
        for _ in range(ROUNDS if self.vary else 1):
            before = best
            for changes in self._variations(first.plan):
                best = self._better_of(best, best.changes.having(changes))
            if best is before:
                break
        return self._simplest(best)

    def _variations(self, plan: Plan) -> Iterator[Changes]:
        """Yield changes of one part of the spec each."""
        for rule in variable_rules(plan.topology):
            yield Changes({"variables": (rule,)})
        if "aggregate" in self.vary:
            yield from variations.aggregations(plan)
        if "pack" in self.vary:
            yield from variations.packs(plan)
        if "clones" in self.vary and len(plan.towers[0].devices) == 1:
            yield from variations.clone_counts(plan)

    def _simplest(self, best: Tried) -> Tried:
        """Return the placement without changes that make nothing better."""
        for changes in best.changes.parts():
            without = self.compare(changes) if changes else self.first
            if without is not None and not best.figures.better_than(without.figures, self.goal):
                return self._simplest(without)
        return best

    def _better_of(self, best: Tried, changes: Changes) -> Tried:
        other = self.compare(changes, best)
        return other if other is not None and other.figures.better_than(best.figures, self.goal) else best

    def _splits(self, first: Tried) -> Iterator[Changes]:
        """Yield the best split of a tower over each group, with variables as they are and with layers."""
        bases = [Changes()] if len(first.plan.towers[0].devices) > 1 else []
        if self.groups is not None:
            asked = tuple(variations.groups(first.plan, (self.groups,)))
            for each in asked:
                self._plan(self._read(self._text(each)))  # says what is wrong with the groups
            bases += asked
        if "groups" in self.vary:
            bases += variations.groups(first.plan)
        for base in bases:
            found = self.compare(base) if base else first
            if found is None:
                continue
            yield base
            yield from self._split(found)

    def _split(self, basis: Tried) -> Iterator[Changes]:
        tower = basis.plan.towers[0]
        if len(tower.devices) == 1 or basis.work is None or self.costs is None:
            return
        assert self.compiled is not None
        sizes: dict[str, int] = {}
        for variable in self.compiled.variables.values():
            info = variable.placement.info
            sizes[info.weight] = sizes.get(info.weight, 0) + info.bytes + info.slot_bytes
        layers = read_layers(basis.work, self.costs, tower, sizes)
        by_bytes = self.goal is not Goal.STEP_TIME
        memory = self.spec.devices.gpu_memory if tower.device.kind == "gpu" else None
        places = split_tower(layers, self.costs, tower, by_bytes=by_bytes, capacity=memory or ROOM)
        changes = basis.changes.having(Changes({"ops": rules_of(places)}))
        yield changes
        yield changes.having(Changes({"variables": variable_rules_of(places, sizes)}))

    # --- one placement ------------------------------------------------------------------------------------

    def compare(self, changes: Changes, best: Tried | None = None) -> Tried | None:
        """Return what a placement comes to; None if a check refuses it, or if it cannot be better.

        Args:
            changes: What is not as in the spec.
            best: The best placement so far, if only a better one is wanted.
        """
        try:
            text = self._text(changes)
            if text not in self._seen:
                self._seen[text] = self._written(text, changes, best)
            found = self._seen[text]
            return None if found is None else evolve(found, changes=changes)
        except SpecError:
            return None

    def _written(self, text: str, changes: Changes, best: Tried | None) -> Tried | None:
        """Return what a placement comes to by its step, or None if that cannot be better."""
        assert self.first is not None
        spec = self._read(text)
        plan = self._plan(spec)
        if plan.global_batch != self.first.plan.global_batch:
            return None  # `--set` has decided otherwise
        moved = self._moved(changes, plan) if self.origin is None else self._rewritten(plan)
        if moved is None:
            return self._build(changes)
        work, placement_of = moved
        self.compared += 1
        if self.first.work is not None and _is_same(work, self.first.work):
            return self._same(text, changes, spec, plan)
        if self._is_slower(work, best):
            return None
        time = None
        if self.costs is not None:
            found = simulate_until(work, self.costs, self._limit(work, best))
            if found is None or self._is_no_better(seconds_of(work, self.costs, found), best):
                return None
            time = forecast_of(work, self.costs, found)
        placement = placement_of()
        return Tried(text, changes, spec, plan, Figures.of(placement, time), placement, work)

    def _same(self, text: str, changes: Changes, spec: ir.Spec, plan: Plan) -> Tried:
        """Return a placement by which everything is where it is by the rules of the spec."""
        assert self.first is not None
        first = self.first
        return Tried(text, changes, spec, plan, first.figures, first.placement, first.work)

    def _is_slower(self, work: StepWork, best: Tried | None) -> bool:
        """Whether a step takes longer than the best one by a bound that is found quickly."""
        return self.costs is not None and self._is_no_better(least_time(work, self.costs), best)

    def _limit(self, work: StepWork, best: Tried | None) -> float:
        """Return the seconds after which a simulation shows that a step is not better than the best one."""
        alone = work.loops or best is None or not self._is_no_better(inf, best)
        return inf if alone or best is None else best.figures.value(self.goal)

    def _is_no_better(self, seconds: float, best: Tried | None) -> bool:
        """Whether a step of some seconds, or of more, is not better than the best one."""
        if best is None or self.goal is not Goal.STEP_TIME or pools(best.placement):
            return False
        return seconds >= best.figures.value(self.goal)

    def _rewritten(self, plan: Plan) -> tuple[StepWork, Callable[[], PlacementMap]] | None:
        """Return the step of a plan, written from that of the spec, and what makes its map."""
        assert self.origin is not None
        assert self.compiled is not None
        origin, first = self.origin, self.first
        assert first is not None
        require_buildable(self.compiled, plan)
        try:
            written = write_step(origin, plan)
        except NotWrittenError:
            return None
        placed = {each.info.weight for each in written.placements}
        assert placed == set(origin.weights), "every variable has a place"
        clones = {each.clone for each in written.work.ops if each.clone is not None}
        assert clones == {each.index for each in plan.towers}, "every clone has its ops"
        return written.work, lambda: written_map(first.placement, origin, written)

    def _moved(self, changes: Changes, plan: Plan) -> tuple[StepWork, Callable[[], PlacementMap]] | None:
        """Return the step of a plan that only has whole variables elsewhere, and what makes its map."""
        first, compiled = self.first, self.compiled
        assert first is not None
        assert compiled is not None
        infos = [each.placement.info for each in compiled.variables.values()]
        whole = not any(
            each.placement.copies or each.placement.info.shard for each in compiled.variables.values()
        )
        only = not changes.values and changes.rules.keys() == {"variables"}
        homes = devices_of_variables(plan, infos) if whole and only else None
        if homes is None or first.work is None:
            return None
        work = first.work.moved(following_ops(compiled, homes))
        return work, lambda: moved_map(first.placement, work, infos, homes)

    def _build(self, changes: Changes, *, keep: bool = False) -> Tried:
        """Build the spec with changes, and with `keep` write the steps of other placements from it."""
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
        if keep:
            self.compiled, self.costs, self.origin = compiled, costs, origin_of(compiled, work)
        return Tried(text, changes, spec, compiled.plan, Figures.of(placement, time), placement, work)

    def _text(self, changes: Changes) -> str:
        """Return the text of the spec with changes."""
        text = self.tree.source.text
        if changes.rules:
            rules = [rule for of_role in changes.rules.values() for rule in of_role]
            text = with_rules(self.tree, changes.rules.keys(), rules)
        for (block, name), value in changes.values.items():
            text = with_value(self._reading(text).trees[0], block, name, value)
        return text

    def _reading(self, text: str) -> grammar.Reading:
        return grammar.read(self.tree.source.name, self.overrides, text=text, allow_python=self.allow_python)

    def _read(self, text: str) -> ir.Spec:
        """Read a text of the spec.

        Raises:
            SpecError: It has errors.
        """
        reading = self._reading(text)
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
            plan = adapted(plan, verbose=self.verbose)
            if any(each.free for each in plan.model.inputs):
                from compiler.graph.assumed_sizes import with_sizes

                plan = with_sizes(plan)
            return graph_of(plan, verbose=self.verbose)

    def _time(self, compiled: CompiledGraph) -> tuple[StepWork | None, Costs | None, StepForecast | None]:
        """Return the work of a step, what it costs, and the forecast of its time, if there can be one."""
        from compiler.graph.inspect.time.timed_step import timed_step
        from compiler.threads import cores
        from compiler.time.costs import choose_costs

        work, devices = timed_step(compiled), compiled.plan.spec.devices
        assumed = self._assumed(compiled.plan.topology)
        if assumed is not None:
            devices = evolve(devices, kind=assumed)
        costs = choose_costs(work, devices, self.profile, cores())
        return work, costs, None if costs is None else forecast_step(work, costs)

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

        assumed = self._assumed(first.plan.topology)
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
            path=self.tree.source.name,
            goal=self.goal,
            rules=best.rules,
            before=first.figures,
            after=best.figures,
            bound=bound(self.goal, first.placement, first.work, self.costs),
            tried=self.tried,
            compared=self.compared,
            estimate=estimate,
            largest=tuple(largest),
            values=best.changes.values,
            notes=(*best.changes.notes.values(), *self._not_varied(first.plan)),
        )

    def _not_varied(self, plan: Plan) -> Iterator[str]:
        """Yield what was to be varied, and could not be."""
        asked = [each for each in ("clones", "groups") if each in self.vary]
        asked += ["groups"] if self.groups is not None and "groups" not in asked else []
        reason = variations.why_clones_stay(plan)
        if asked and reason is not None:
            yield f"the number of clones is not varied: {reason}"
        sums = [each for each in ("aggregate", "pack") if each in self.vary]
        if sums and len(plan.towers) == 1:
            yield "there is one clone, whose gradients need no sum"


def only_changes(before: ir.Spec, after: ir.Spec, changes: Changes) -> bool:
    """Whether a spec differs from another one by some changes alone.

    Args:
        before: The spec as it was.
        after: The spec that is compared with it.
        changes: The values and the roles in rules that may differ.
    """
    for block, name in changes.values:
        found = getattr(after, block)
        after = evolve(after, **{block: evolve(found, **{name: getattr(getattr(before, block), name)})})
    roles = set(changes.rules)
    kept = [
        [rule_text(each) for each in spec.place.rules if each.selector.role not in roles]
        for spec in (before, after)
    ]
    return kept[0] == kept[1] and evolve(after, place=before.place) == before


def _is_same(work: StepWork, other: StepWork) -> bool:
    """Whether two steps have the same ops on the same devices, and send the same."""
    if len(work.ops) != len(other.ops) or len(work.arrows) != len(other.arrows):
        return False
    return {(each.name, each.device) for each in work.ops} == {(each.name, each.device) for each in other.ops}


def suggest(
    path: str | os.PathLike[str],
    goal: str = Goal.STEP_TIME,
    *,
    groups: int | None = None,
    vary: Sequence[str] = (),
    profile: str | os.PathLike[str] | None = None,
) -> Suggestion:
    """Search for placement rules of a spec that are better, as `tfdeploy suggest` does.

    Args:
        path: The file of the spec. It is not changed.
        goal: What is to be low: `step_time`, `memory` or `balance`.
        groups: Also try clones that have so many devices each.
        vary: What else may change: `clones`, `aggregate`, `pack` and `groups`. A step always has as many
            examples as before.
        profile: The file of a profile; by default the one beside the spec, if there is one.

    Returns:
        What was found: the rules, and what they come to before and after.

    Raises:
        SpecError: The spec has errors, or cannot be built.
        RunError: If the file is no profile.
        NoForecastError: The goal is the time of a step, of which there is no forecast.
        ValueError: Something cannot be varied.
        CannotEditError: What would change is in a file that the spec includes.
    """
    unknown = [each for each in vary if each not in variations.VARIED]
    if unknown:
        raise ValueError(f"{unknown[0]!r} cannot be varied; these can: {', '.join(variations.VARIED)}")
    reading = grammar.read(os.fspath(path))
    if reading.spec is None:
        raise SpecError(reading.diagnostics)
    machine = find_profile(reading.spec.path, None if profile is None else os.fspath(profile))
    known = None if machine is None else machine.profile
    return Suggester(reading.spec, reading.trees[0], Goal(goal), known, groups=groups, vary=vary).run()[0]


def following_ops(compiled: CompiledGraph, homes: Mapping[str, Device]) -> dict[str, Device]:
    """Return the new devices of the ops that are beside a variable, and of the variables themselves.

    Args:
        compiled: The graph.
        homes: The new device of each variable that has moved, by its name.
    """
    found = {
        name: homes[entry.placed.reason.text]
        for name, entry in compiled.ledger.entries.items()
        if entry.placed.reason.kind == "follows" and entry.placed.reason.text in homes
    }
    for name, variable in compiled.variables.items():
        found |= {copy.handle.op.name: homes[name] for copy in variable.copies}
    return found
