"""The stages of a pipeline: on which device of its clone's group each op of a tower is.

A rule `ops(...) -> group[k]` says where stage k begins. What no rule names is where what it takes is, so that
activations go from stage to stage and never back; what takes only weights or random states is at the first
stage that uses it. Gradients are where their forward ops are, and a sum of gradients at the first stage that
has one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from attrs import define, field, frozen

from compiler.graph.tower.recompute import SCOPE as RECOMPUTED
from compiler.graph.tower.recompute import Forward, inputs_of
from compiler.graph.tower.template import Template
from compiler.plan import Plan
from compiler.reasons import Reason
from dsl import ir
from dsl.diagnostics import Diagnostic, Label, SpecError
from dsl.errors.plan import layer_goes_back, one_stage
from dsl.source import Span


@frozen
class Stage:
    """The stage of an op."""

    number: int  # the number of its device in the group
    op: str
    # What put that op there; None if nothing but the place of its tower.
    reason: Reason | None = field(default=None, repr=False)


@frozen
class Stages:
    """The stages of the ops of a template, by the names of ops."""

    of: Mapping[str, Stage]  # the stage of each op that has one
    # What decides the place of each op; None if it is where its tower is.
    reasons: Mapping[str, Reason | None] = field(repr=False)
    # Ops that a rule puts before a stage from which they take something, each with an op there.
    back: Sequence[tuple[str, Stage]]


def stages_of(template: Template, decide: Callable[[str], Reason | None]) -> Stages:
    """Return the stages of a template."""
    nodes, roles = template.fragment.node, template.roles
    ruled = {own: decide(own) for own in nodes}
    reader = _Reader(template, ruled)
    forward = [each for each in nodes if roles[each] != "gradient"]
    gradients = [each for each in nodes if roles[each] == "gradient"]
    reader.go_forward(forward)
    reader.fill(forward, min)
    reader.go_back(gradients)
    reader.fill(gradients, max)
    reasons = {own: _reason(ruled[own], reader.found.get(own)) for own in nodes}
    return Stages(reader.found, reasons, reader.back)


@define
class _Reader:
    template: Template
    ruled: Mapping[str, Reason | None]
    found: dict[str, Stage] = field(factory=dict)
    back: list[tuple[str, Stage]] = field(factory=list)

    def go_forward(self, names: Sequence[str]) -> None:
        """Let ops be where a rule puts them, or else at the last stage from which they take something."""
        self.found |= {port: Stage(0, port) for port in self.template.inputs.values()}
        for own in names:
            before, index = self._one_of(self._taken(own), max), _member(self.ruled[own])
            stage = before if index is None else Stage(index, own, self.ruled[own])
            if stage is not None and own not in self.found:
                self.found[own] = stage
                if before is not None and before.number > stage.number:
                    self.back.append((own, before))

    def go_back(self, names: Sequence[str]) -> None:
        """Let gradients be where their forward ops are, or at the first of the stages of what they add."""
        roles = self.template.roles
        for own in names:
            taken, near = self._taken(own), [self.template.follows.get(own, "")]
            if not own.startswith(f"{RECOMPUTED}/"):
                near += [each for each in taken if roles[each] == "gradient"]
            stage = self._one_of(near, min) or self._one_of(taken, max)
            if stage is not None:
                self.found[own] = stage

    def fill(self, names: Sequence[str], choose: Callable[..., Stage | None]) -> None:
        """Let what depends on weights or random states alone be at one of the stages that take it."""
        for own in reversed(names):
            stage = self.found.get(own) or self._one_of(self.users.get(own, ()), choose)
            if stage is not None:
                self.found[own] = stage

    @cached_property
    def users(self) -> Mapping[str, Sequence[str]]:
        """The ops that take results of each op."""
        return Forward(self.template).users

    def _taken(self, own: str) -> list[str]:
        return inputs_of(self.template.fragment.node[own])

    def _one_of(self, names: Iterable[str], choose: Callable[..., Stage | None]) -> Stage | None:
        stages = (self.found[each] for each in names if each in self.found)
        return choose(stages, key=lambda each: each.number, default=None)


def require_pipeline(plan: Plan, stages: Stages) -> None:
    """Raise SpecError if micro-batches cannot pass from stage to stage, at the line of the layer."""
    found: dict[str, Diagnostic] = {}
    for own, later in stages.back:
        span, layer = _layer(plan, own)
        reason, number = stages.reasons[own], stages.of[own].number
        rule = None if reason is None else reason.span
        labels = () if rule is None else (Label(rule, "puts it there"),)
        before, at = _layer(plan, later.op)[1], str(later.number)
        fault = layer_goes_back(
            span or rule, labels=labels, layer=layer, number=str(number), before=before, later=at
        )
        found.setdefault(layer, fault)
    if found:
        raise SpecError([*found.values()])


def warn_of_one_stage(plan: Plan, stages: Stages) -> tuple[Diagnostic, ...]:
    """Return a warning if all ops of a clone are on its first device."""
    if any(each.number for each in stages.of.values()):
        return ()
    return (one_stage(plan.update.span_of("schedule"), device=plan.towers[0].device.ref),)


def _layer(plan: Plan, own: str) -> tuple[Span | None, str]:
    """Return the place of the layer of an op in the spec, and its name; that of the op if it is of none."""
    layers = [each for each in plan.model.layers if own == each.path or own.startswith(f"{each.path}/")]
    found = max(layers, key=lambda each: len(each.path), default=None)
    return (None, own) if found is None else (found.span, found.path)


def _member(reason: Reason | None) -> int | None:
    """Return the number in the group to which a rule points; None if there is none."""
    target = None if reason is None else reason.target
    return target.index if isinstance(target, ir.GroupMember) else None


def _reason(ruled: Reason | None, stage: Stage | None) -> Reason | None:
    """Return what decides the place of an op that has a stage, or a rule of its own."""
    index = _member(ruled)
    if stage is None or (ruled is not None and index is None) or index == stage.number:
        return ruled
    begins = stage.reason
    return None if begins is None else Reason(stage.op, "follows", begins.rule, cause=begins)
