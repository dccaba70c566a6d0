"""Tries placements one by one, by the steps that they come to."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from attrs import define, evolve, field, frozen

import grammar
from compiler.kinds.grid import NotAlikeError
from compiler.kinds.layout import Extras, why_not
from compiler.mapping.records import PlacementMap
from compiler.placement.rules import rule_text
from compiler.report.devices import pools
from compiler.step.read.map import Found, map_step
from compiler.step.read.memory import forecast_memory
from compiler.step.read.work import timed_step
from compiler.suggest.outcome import Figures, Goal, Outcome, best_of
from compiler.suggest.variations import Changes
from dsl import syntax
from dsl.diagnostics import SpecError
from tfdeploy.progress import busy
from tfdeploy.runtime.plans import SharedTowers
from tfdeploy.runtime.start_tensorflow import start_telling

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Plan
    from compiler.step.step import Step
    from compiler.time.costs import Costs
    from compiler.time.profile import FoundProfile
    from compiler.time.work import StepWork
    from compiler.topology import Topology
    from dsl import ir

MOST_BUILT = 64
"""With more clones than this, placements are compared without the graph of all, if the clones are alike."""


def are_many(plan: Plan) -> bool:
    """Whether a plan has many clones that are alike, as far as its devices and rules tell."""
    return len(plan.all_towers) > MOST_BUILT and why_not(plan) is None


USUAL_GPU, USUAL_CPU = "v100", "cpu"
"""The hardware that is assumed if neither a profile nor `devices.kind` says what there is."""


@frozen
class Tried:
    """A placement that was built or compared."""

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

    The graph of the spec is built. Other placements are compiled to their steps, of which no graph is made;
    towers are traced once for all of them. Of many clones that are alike, no placement is compiled with all
    of them.
    """

    spec: ir.Spec = field(repr=False)
    tree: syntax.File = field(repr=False)
    goal: Goal
    profile: FoundProfile | None = field(default=None, repr=False)
    overrides: Sequence[tuple[str, str]] = ()  # paths of the spec with other values, as `--set` has them
    allow_python: bool = True
    verbose: bool = False
    built: int = 0  # how many placements have been built
    compared: int = 0  # how many placements have been compared without that
    costs: Costs | None = field(default=None, repr=False)  # what ops cost, or None if that is not known
    # The step of the spec as it is, once it is built; if it has many clones that are alike, that of a few of
    # them.
    step: Step | None = field(default=None, repr=False)
    # The placement of the spec as it is, once it is built.
    first: Tried | None = field(default=None, repr=False)
    # What is changed by the placements that are not compared, because their clones are not alike and too many
    # for a graph of all.
    left_out: list[str] = field(factory=list, repr=False)
    _many: bool = False
    _towers: SharedTowers = field(factory=SharedTowers, repr=False)
    _seen: dict[str, Tried | None] = field(factory=dict, repr=False)

    def begin(self) -> Tried:
        """Build the spec as it is, with which other placements are compared."""
        self.first = self._begin_with_many()
        if self.first is not None:
            self._seen[self.tree.source.text] = self.first
            return self.first
        self.first = self._seen[self.tree.source.text] = self._build(Changes())
        return self.first

    def _begin_with_many(self) -> Tried | None:
        """Return the spec as it is, if it has many clones that are alike; else None."""
        text = self.tree.source.text
        plan = self.plan(self.read(text))
        if not are_many(plan):
            return None
        start_telling(verbose=self.verbose)
        try:
            with busy(f"placing {len(plan.all_towers)} clones of {plan.spec.model.name} that are alike"):
                found = self._tried_with_many(text, Changes(), plan)
        except NotAlikeError:
            return None
        self._many = True
        return found

    def _tried_with_many(self, text: str, changes: Changes, plan: Plan) -> Tried:
        from tfdeploy.runtime.adapted import adapted
        from tfdeploy.runtime.plans import many_of

        gc.collect()  # the graphs of the placement before, whose parts refer to each other
        spec, plan = plan.spec, adapted(plan)
        found = many_of(plan, extras=Extras(costs=True, time=False), towers=self._towers)
        assert found.work is not None
        costs = self._costs(found.work, plan)
        if self.step is None:
            self.step, self.costs = found.reasons.few, costs
        self.compared += 1
        placement = found.placement
        return Tried(text, changes, spec, plan, Outcome(found.work, costs, lambda: placement))

    def compare(self, changes: Changes) -> Tried | None:
        """Return a placement, or None if a check refuses it."""
        try:
            text = self.text(changes)
            if text not in self._seen:
                self._seen[text] = self._by_step(text, changes)
            found = self._seen[text]
            return None if found is None else evolve(found, changes=changes)
        except SpecError:
            return None

    def best_of(self, best: Tried, others: Iterable[Changes]) -> Tried:
        """Return the best of some placements."""
        tried = [each for each in map(self.compare, others) if each is not None]
        outcome = best_of(best.outcome, [each.outcome for each in tried], self.goal, limited=self._limited)
        if outcome is best.outcome:
            return best
        return next(each for each in tried if each.outcome is outcome)

    @property
    def _limited(self) -> bool:
        """Whether the spec gives the memory of devices."""
        assert self.first is not None
        return bool(pools(self.first.outcome.placement))

    def _by_step(self, text: str, changes: Changes) -> Tried | None:
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
        compiled = self._compile(spec)
        self.compared += 1
        work, known = timed_step(compiled.step), self.first.outcome
        if known.work is not None and is_same(work, known.work):
            return Tried(text, changes, spec, compiled.plan, known)
        outcome = Outcome(work, self.costs, lambda: self._map(self._compile(spec).step))
        if self.goal is not Goal.STEP_TIME or self._limited:  # its map is needed in any case
            placement = self._map(compiled.step)
            outcome = Outcome(work, self.costs, lambda: placement)
        return Tried(text, changes, spec, compiled.plan, outcome)

    def _map(self, step: Step) -> PlacementMap:
        """Return the map of a step that is compared, without its ops."""
        assert self.first is not None
        first = self.first.outcome.placement
        assert isinstance(first, PlacementMap)
        return evolve(map_step(step, first.tensorflow, Found(memory=forecast_memory(step))), ops=())

    def _build(self, changes: Changes) -> Tried:
        start_telling(verbose=self.verbose)  # quietly, before the next lines import TensorFlow
        from compiler.graph.finished import in_graph
        from compiler.graph.inspect.placement_map import map_placement

        text = self.text(changes)
        spec = self.read(text)
        with busy(f"building placement {self.built + 1} of {spec.model.name}"):
            compiled = in_graph(self._compile(spec))
        with busy(f"forecasting placement {self.built + 1} of {self.spec.model.name}"):
            placement = map_placement(compiled, memory=forecast_memory(compiled.step))
            work = timed_step(compiled.step)
            costs = self._costs(work, compiled.plan)
        self.built += 1
        self._require_everything(compiled, placement)
        if self.step is None:
            self.step, self.costs = compiled.step, costs
        return Tried(text, changes, spec, compiled.plan, Outcome(work, costs, lambda: placement))

    def built_of(self, tried: Tried) -> Tried:
        """Return a placement with the figures of its graph, which is built if it was only compared.

        By these figures, its memory may be no better than that of the spec as it is, which is returned then.
        """
        assert self.first is not None
        if self._many or tried.outcome is self.first.outcome:
            return tried
        built, made = self.built, self._build(tried.changes)
        self.built = built  # it was counted when it was compared
        first = self.first.outcome
        best = best_of(first, [made.outcome], self.goal, limited=self._limited)
        return self.first if best is first else made

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
        """Read a text of the spec."""
        return self.reading(text).require()

    def plan(self, spec: ir.Spec) -> Plan:
        """Return the plan of a spec on this machine."""
        from tfdeploy.runtime.plans import plan_of

        return plan_of(spec, verbose=self.verbose)

    def _compile(self, spec: ir.Spec) -> CompiledGraph:
        from tfdeploy.runtime.adapted import adapted
        from tfdeploy.runtime.plans import step_of_plan

        plan = adapted(self.plan(spec))
        return step_of_plan(evolve(plan, model=plan.model.assumed), self._towers)

    def _costs(self, work: StepWork, plan: Plan) -> Costs | None:
        """Return what the ops of a step cost, if there can be a forecast of its time."""
        from compiler.process import cores
        from compiler.time.costs import choose_costs

        devices, assumed = plan.spec.devices, self.assumed(plan.topology)
        if assumed is not None:
            devices = evolve(devices, kind=assumed)
        return choose_costs(work, devices, self.profile, cores())

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


def is_same(work: StepWork, other: StepWork) -> bool:
    """Whether two steps have the same ops on the same devices, and send the same."""
    if len(work.ops) != len(other.ops) or len(work.arrows) != len(other.arrows):
        return False
    return {(each.name, each.device) for each in work.ops} == {(each.name, each.device) for each in other.ops}


# --- rules and values in the text of a spec ---------------------------------------------------------------

_INDENT = "  "


def with_rules(tree: syntax.File, roles: Collection[str], rules: Sequence[str]) -> str:
    """Return the text of a spec with other rules for some roles.

    The new rules stand where the first of the old ones stood, or else at the end of the `place` block, which
    is added if there is none. A comment on the line of a rule that is removed stays.
    """
    text = tree.source.text
    blocks = syntax.blocks_in(tree.items, "place")
    if not blocks:
        return text.rstrip() + "\n\n" + _block(rules) if rules else text
    block = blocks[-1]
    entries = [each for each in block.items if isinstance(each, syntax.Entry)]
    kept = [each for each in entries if _role(each) not in roles]
    if "\n" not in text[block.span.start : block.span.end]:
        items = [text[each.span.start : each.span.end] for each in kept]
        return text[: block.span.start] + _block([*items, *rules]).rstrip() + text[block.span.end :]
    for entry in reversed(entries):
        if entry not in kept:
            first = all(_role(each) not in roles for each in entries[: entries.index(entry)])
            text = _replaced(text, entry.span.start, entry.span.end, rules if first else ())
    if len(kept) == len(entries) and rules:
        at = text.rindex("\n", 0, block.span.end) + 1
        text = text[:at] + "".join(f"{_INDENT}{rule}\n" for rule in rules) + text[at:]
    return text


def with_value(tree: syntax.File, kind: str, name: str, value: str) -> str:
    """Return the text of a spec in which an attribute of a block has a value.

    A value that is there is replaced. Otherwise the attribute stands at the end of the block, which is added
    if there is none.
    """
    text = tree.source.text
    blocks = syntax.blocks_in(tree.items, kind)
    if not blocks:
        return f"{text.rstrip()}\n\n{kind} {{\n{_INDENT}{name} = {value}\n}}\n"
    block = blocks[-1]
    for item in syntax.attributes_in(block.items, name):
        return text[: item.value.span.start] + value + text[item.value.span.end :]
    if "\n" not in text[block.span.start : block.span.end]:
        items = [text[each.span.start : each.span.end] for each in block.items]
        lines = "".join(f"{_INDENT}{each}\n" for each in (*items, f"{name} = {value}"))
        return text[: block.items[0].span.start].rstrip(" ") + f"\n{lines}}}" + text[block.span.end :]
    at = text.rindex("\n", 0, block.span.end) + 1
    return f"{text[:at]}{_INDENT}{name} = {value}\n{text[at:]}"


def _role(entry: syntax.Entry) -> str:
    """Return the role that a rule is for."""
    return entry.span.text.partition("->")[0].partition("(")[0].strip()


def _block(rules: Sequence[str]) -> str:
    return "".join(("place {\n", *(f"{_INDENT}{rule}\n" for rule in rules), "}\n"))


def _replaced(text: str, start: int, end: int, rules: Sequence[str]) -> str:
    """Return a text with rules in place of the one from `start` to `end`, and without empty lines there."""
    begins, ends = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    before, after = text[begins:start], text[end:ends]
    if rules:
        indent = before[: len(before) - len(before.lstrip())]
        return text[:start] + f"\n{indent}".join(rules) + text[end:]
    if before.strip() or after.strip():
        return text[:start] + text[end:].lstrip(" \t")
    return text[:begins] + text[ends + 1 :]
