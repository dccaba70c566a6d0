"""Which weight is updated by which rule: one optimizer for all, or one for each group of weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.graph.optimizers.base import Optimizer, Scalars
from compiler.graph.tower.template import WeightInfo
from compiler.step.record import Tensor
from compiler.step.writer import Spot
from compiler.topology import Device
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import layers, plan
from dsl.source import Span
from dsl.suggest import nearest_paths


@frozen
class Group:
    """An optimizer with the weights that it updates."""

    rule: ir.OptimizerRule  # what the spec says: a glob, and the call of the optimizer
    optimizer: Optimizer
    excluded: tuple[str, ...] = ()  # globs of the weights that do not decay
    excluded_span: Span | None = None


@frozen
class UpdateRules:
    """The update rule of every trainable weight."""

    groups: Mapping[str, Optimizer]  # the optimizers by the globs of their groups, in the order of the spec
    weights: Mapping[str, Optimizer] = field(repr=False)

    def of(self, name: str) -> Optimizer:
        """Return the rule of a weight, or of a piece of one."""
        return self.weights[name]

    def for_pieces(self, weights: Mapping[str, WeightInfo]) -> UpdateRules:
        """Return these rules with one for each piece of a weight, in place of that for the whole."""
        found = {}
        for each in weights.values():
            rule = self.weights.get(each.weight)
            if rule is not None:
                found[each.name] = rule if each.shard is None else rule.for_weight(each, decays=rule.decays)
        return evolve(self, weights=found)

    def with_parts(self, parts: Mapping[str, WeightInfo]) -> UpdateRules:
        """Return these rules with one more for each part of a weight that a clone updates by itself."""
        found = dict(self.weights)
        for each in parts.values():
            rule = self.weights[each.weight]
            found[each.name] = rule.for_weight(each, decays=rule.decays)
        return evolve(self, weights=found)

    def scalars(self, step: tf.Tensor) -> Mapping[str, Scalars]:
        """Return the numbers of a step by the glob of the group; `step` is the global step (int64)."""
        found = {glob: each.scalars(step) for glob, each in self.groups.items()}
        kinds = {(each.group, type(each)): each for each in self.weights.values()}
        for glob, optimizer in self.groups.items():
            for (group, kind), each in kinds.items():
                if group == optimizer.group and kind is not type(optimizer):
                    found[glob] |= each.own_scalars(step)
        return found


@frozen
class StepScalars:
    """The numbers of a step, which all variables share."""

    # Those of each optimizer by the glob of its group, in the order of the spec.
    groups: Mapping[str, Mapping[str, Tensor]]
    average_rate: Tensor | None = None  # how far moving averages move, if that changes from step to step
    home: Device | None = None
    _beside: dict[tuple[int, Device], Mapping[str, Tensor]] = field(factory=dict, repr=False)

    def of(self, rule: Optimizer, at: Spot | None = None) -> Mapping[str, Tensor]:
        """Return the numbers that the rule of a weight takes.

        Args:
            at: Where the ops beside the weight are written. If that is on another task than the numbers,
                those that never change are made there, so that no step sends them.
        """
        numbers = [*self.groups.values()][rule.group]
        if at is None or self.home is None or at.placed.device.host == self.home.host:
            return numbers
        key = (rule.group, at.placed.device)
        if key not in self._beside:
            self._beside[key] = {name: _constant(at, name, each) for name, each in numbers.items()}
        return self._beside[key]

    @property
    def learning_rates(self) -> dict[str, Tensor]:
        """The learning rate of each group by its glob."""
        return {glob: each["learning_rate"] for glob, each in self.groups.items()}


def _constant(at: Spot, name: str, number: Tensor) -> Tensor:
    """Return a number as a constant beside a weight, or itself if it is none."""
    if number.value is None:
        return number
    alone = evolve(at.writer, after=())
    return alone.constant(at.name(name), number.value, number.dtype, at.placed)


def assign_rules(groups: Sequence[Group], weights: Mapping[str, WeightInfo]) -> UpdateRules:
    """Return the rule of each trainable weight: that of the first group whose glob matches its name.

    Raises:
        SpecError: A weight belongs to no group, a group has no weight, or a glob of weights that do not decay
            matches none of its group.
    """
    members: list[list[WeightInfo]] = [[] for _ in groups]
    left: list[str] = []
    for weight in weights.values():
        if weight.trainable:
            first = next(
                (at for at, each in enumerate(groups) if fnmatchcase(weight.name, each.rule.pattern)), None
            )
            if first is None:
                left.append(weight.name)
            else:
                members[first].append(weight)
    found = list(_faults(groups, members, [each.name for each in weights.values() if each.trainable]))
    if left:
        found.append(layers.weights_without(groups[-1].rule.span, names=left))
    if found:
        raise SpecError(found)
    rules = {
        weight.name: group.optimizer.for_weight(
            weight, decays=not any(fnmatchcase(weight.name, glob) for glob in group.excluded)
        )
        for group, own in zip(groups, members, strict=True)
        for weight in own
    }
    return UpdateRules({each.rule.pattern: each.optimizer for each in groups}, rules)


def _faults(
    groups: Sequence[Group], members: Sequence[Sequence[WeightInfo]], names: Sequence[str]
) -> Iterator[Diagnostic]:
    """Yield what is wrong with the globs of the groups; `names` are those of all trainable weights."""
    for group, own in zip(groups, members, strict=True):
        pattern, span = group.rule.pattern, group.rule.name_span or group.rule.span
        if not any(fnmatchcase(name, pattern) for name in names):
            yield plan.rule_matches_nothing(span, selector=pattern, names=nearest_paths(pattern, names))
        elif not own:
            yield layers.group_without_weights(span, pattern=pattern)
        for glob in dict.fromkeys(group.excluded) if own else ():
            if not any(fnmatchcase(each.name, glob) for each in own):
                near = nearest_paths(glob, [each.name for each in own])
                yield plan.rule_matches_nothing(group.excluded_span, selector=glob, names=near)


# --- updates of whole tables ------------------------------------------------------------------------------


def tables_dominate(
    weights: Mapping[str, WeightInfo], tables: Collection[str], rules: UpdateRules, examples: int
) -> bool:
    """Return whether a step spends more time on updates of whole tables than in its towers.

    An update goes through its table once, whatever the batch is. A tower goes through each of its other
    weights for every example, so bytes of tables are compared with bytes of other weights times examples.
    """
    updated = [weights[each] for each in tables if not rules.of(each).by_rows]
    others = sum(each.bytes for each in weights.values() if each.name not in tables)
    return sum(each.bytes for each in updated) > others * examples
