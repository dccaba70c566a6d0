"""Goes through the placements of a spec that might be better, for `suggest`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from attrs import define, evolve

import grammar
from compiler.figures import size
from compiler.kinds.kind_map import AnyMap
from compiler.placement.rules import rule_text
from compiler.plan import Plan
from compiler.process import collector_paused
from compiler.report.devices import Pool, device_label, job_kind, pools
from compiler.suggest import variations
from compiler.suggest.outcome import Goal, bound
from compiler.suggest.text import Suggestion
from compiler.suggest.tower import (
    ROOM,
    balanced_stages,
    read_layers,
    rules_of,
    split_tower,
    variable_rules_of,
)
from compiler.suggest.variations import Changes, slot_changes, variable_changes
from compiler.time.profile import find_profile
from dsl import ir, syntax
from tfdeploy.progress import busy
from tfdeploy.suggesting.trials import Trials, Tried

ROUNDS = 3
"""How often all parts are varied at most: what is best for one may depend on another."""


class CannotEditError(Exception):
    """The text of a spec cannot be changed as a placement needs it."""


@define
class Suggester:
    """Goes through placements of one spec, and keeps the best.

    Attributes:
        trials: Tries the placements.
        groups: The number of devices that each clone is to have, or None.
        vary: What is varied besides rules for layers and variables; see `compiler.suggest.variations`.
    """

    trials: Trials
    groups: int | None = None
    vary: Sequence[str] = ()

    def run(self) -> tuple[Suggestion, str]:
        """Compare placements.

        Returns:
            What was found, and the text of the spec with the best rules.

        Raises:
            SpecError: The spec as it is cannot be built.
            NoForecastError: The goal is the time of a step, of which there is no forecast.
            CannotEditError: What would change is in another file.
        """
        self.require_own_blocks()
        with collector_paused():
            first = self.trials.begin()
            first.figures.value(self.trials.goal)
            with busy(f"comparing placements of {first.spec.model.name}"):
                best = self.search(first)
            best = self.trials.built_of(best)
            if not only_changes(first.spec, best.spec, best.changes):
                message = "the text of the spec cannot be changed without changing something else"
                raise CannotEditError(message)
            return self._suggestion(first, best), best.text

    def require_own_blocks(self) -> None:
        """Raise CannotEditError if what would change is in a file that the spec includes."""
        changed = {"place"} | {"clones" for each in ("clones", "groups") if each in self.vary or self.groups}
        changed |= {"update" for each in ("aggregate", "pack") if each in self.vary}
        own = self.trials.tree.source
        for tree in self.trials.reading(own.text).trees[1:]:
            for item in tree.items:
                if isinstance(item, syntax.Block) and item.kind in changed:
                    message = (
                        f"the block `{item.kind}` is in `{tree.source.name}`, which "
                        f"`{own.name}` includes; `suggest` changes blocks of the file itself "
                        "only, so move it there"
                    )
                    raise CannotEditError(message)

    def search(self, first: Tried) -> Tried:
        """Return the best of all placements that are tried.

        All else is varied both for the clones of the spec and for clones with groups of devices, if these are
        better at first: what is worse then may have the better variations.
        """
        split = first
        for base in self.bases(first):
            found = self.trials.best_of(base, self._split(base))
            if found is not base:  # else a group is no better than one device of it
                split = self.trials.best_of(split, [found.changes])
        best = self.varied(first, first)
        if split is not first:
            best = self.trials.best_of(best, [self.varied(first, split).changes])
        return self.simplest(best)

    def varied(self, first: Tried, best: Tried) -> Tried:
        """Return the best of a placement and its variations, and of theirs.

        Args:
            first: The spec as it is, which says what can be varied.
            best: The placement that is varied.
        """
        for _ in range(ROUNDS if self.vary else 1):
            before = best
            for part in self.variations_of(first.plan):
                best = self.trials.best_of(best, [best.changes.having(each) for each in part])
            if best is before:
                break
        return best

    def variations_of(self, plan: Plan) -> Iterator[Sequence[Changes]]:
        """Yield the changes of one part of the spec after the other."""
        yield list(variable_changes(plan, self._sizes_if_whole_do(plan)))
        yield list(slot_changes(plan))
        if "aggregate" in self.vary:
            yield list(variations.aggregations(plan))
        if "pack" in self.vary:
            yield list(variations.packs(plan))
        if "clones" in self.vary and len(plan.towers[0].devices) == 1:
            yield list(variations.clone_counts(plan))

    def simplest(self, best: Tried) -> Tried:
        """Return the placement without changes that make nothing better."""
        for changes in best.changes.parts():
            without = self.trials.compare(changes) if changes else self.trials.first
            if without is not None and self.trials.best_of(without, [best.changes]) is without:
                return self.simplest(without)
        return best

    def bases(self, first: Tried) -> Iterator[Tried]:
        """Yield placements whose towers are to be split, each with other groups of devices."""
        if len(first.plan.towers[0].devices) > 1:
            yield first
        bases: list[Changes] = []
        if self.groups is not None:
            bases += variations.groups(first.plan, (self.groups,))
            for each in bases:
                self.trials.plan(self.trials.read(self.trials.text(each)))  # says what is wrong with them
        if "groups" in self.vary:
            bases += variations.groups(first.plan)
        for base in bases:
            found = self.trials.compare(base)
            if found is not None:
                yield found

    def _split(self, basis: Tried) -> Iterator[Changes]:
        """Yield the best split of a tower over its group, with variables as they are and with layers."""
        tower, trials, work = basis.plan.towers[0], self.trials, basis.outcome.work
        if len(tower.devices) == 1 or work is None or trials.costs is None:
            return
        sizes = self._sizes()
        layers = read_layers(work, trials.costs, tower, sizes)
        by_bytes = trials.goal is not Goal.STEP_TIME
        memory = trials.spec.devices.gpu_memory if tower.device.kind == "gpu" else None
        if tower.piped:
            places = balanced_stages(layers, len(tower.devices))
        else:
            places = split_tower(layers, trials.costs, tower, by_bytes=by_bytes, capacity=memory or ROOM)
        changes = basis.changes.having(Changes({"ops": rules_of(places)}))
        yield changes
        yield changes.having(Changes({"variables": variable_rules_of(places, sizes)}))

    def _sizes(self) -> dict[str, int]:
        """Return the bytes of each weight with its slots."""
        assert self.trials.step is not None
        sizes: dict[str, int] = {}
        for variable in self.trials.step.variables.values():
            info = variable.placement.info
            sizes[info.weight] = sizes.get(info.weight, 0) + info.bytes + info.slot_bytes
        return sizes

    def _sizes_if_whole_do(self, plan: Plan) -> tuple[int, ...]:
        """Return the bytes of all weights if pieces have to be needed to be tried; else nothing.

        Within a process, pieces only add ops to a step if whole weights can be shared out as evenly. Between
        processes, they arrive sooner over several links; and they take less memory, if that is the goal.
        """
        apart = any(each.job is not None for each in plan.topology.devices)
        if apart or self.trials.goal is not Goal.STEP_TIME:
            return ()
        return tuple(self._sizes().values())

    def _suggestion(self, first: Tried, best: Tried) -> Suggestion:
        trials = self.trials
        assumed = trials.assumed(first.plan.topology)
        estimate = ""
        if assumed is not None and first.figures.seconds is not None:
            estimate = f"times are estimates for the hardware `{assumed}`: there is no profile and no `kind`"
        return Suggestion(
            path=trials.tree.source.name,
            goal=trials.goal,
            rules=best.rules,
            before=first.figures,
            after=best.figures,
            bound=bound(trials.goal, first.outcome.placement, first.outcome.work, trials.costs),
            tried=trials.built,
            compared=trials.compared,
            estimate=estimate,
            largest=tuple(_too_full(best.outcome.placement)),
            values=best.changes.values,
            notes=(*best.changes.notes.values(), *self.not_varied(first.plan), *self._left_out()),
        )

    def _left_out(self) -> Iterator[str]:
        """Yield what was not compared because it would need the graph of very many clones."""
        if self.trials.left_out:
            listed = ", ".join(f"`{each}`" for each in self.trials.left_out)
            yield f"not compared, because clones are then not alike and need a graph of all: {listed}"

    def not_varied(self, plan: Plan) -> Iterator[str]:
        """Yield what was to be varied, and could not be."""
        asked = [each for each in ("clones", "groups") if each in self.vary]
        asked += ["groups"] if self.groups is not None and "groups" not in asked else []
        reason = variations.why_clones_stay(plan)
        if asked and reason is not None:
            yield f"the number of clones is not varied: {reason}"
        sums = [each for each in ("aggregate", "pack") if each in self.vary]
        if sums and len(plan.towers) == 1:
            yield "there is one clone, whose gradients need no sum"


def _too_full(placement: AnyMap) -> Iterator[str]:
    """Yield what takes the memory of devices that are too small: of the first of those that need the same."""
    from compiler.conditions import largest_variables, memory_parts

    alike: dict[tuple[object, ...], list[Pool]] = {}
    for pool in pools(placement):
        if pool.excess > 0:
            kinds = tuple(job_kind(each.ref) for each in pool.devices)
            alike.setdefault((kinds, pool.needed, pool.limit), []).append(pool)
    for same in alike.values():
        first = same[0]
        for at, device in enumerate(first.devices):
            label = device_label([pool.devices[at].ref for pool in same])
            each = f"each of {len(same)} needs {size(first.needed)}" if len(same) > 1 else ""
            needed = each or f"{size(first.needed)} are needed"
            yield f"{label}: {needed}, {size(first.excess)} more than there are"
            for line in (*memory_parts(device), *largest_variables(device.ref, placement)):
                yield f"{device.ref}: {line}"


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
    spec = reading.require()
    machine = find_profile(spec.path, None if profile is None else os.fspath(profile))
    trials = Trials(spec, reading.trees[0], Goal(goal), machine)
    return Suggester(trials, groups, vary).run()[0]
