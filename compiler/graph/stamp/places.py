"""The place of each op of a tower: by a rule, beside its forward op, beside its table, or with the tower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

from attrs import define, evolve, field

from compiler.graph.stamp.lookups import Usage, runs_functions
from compiler.graph.stamp.stages import Stages, stages_of
from compiler.graph.tower.template import Template
from compiler.placement.rules import Rulebook, following
from compiler.plan import Tower
from compiler.reasons import Placed, Reason
from compiler.topology import Device
from dsl import ir


@define
class Layout:
    """What all towers of a template have in common: the rule that decides the place of each op."""

    template: Template = field(repr=False)
    usage: Usage = field(repr=False)
    rulebook: Rulebook = field(repr=False)
    staged: bool = False  # whether its ops are the stages of a pipeline
    _stages: Stages | None = field(default=None, repr=False)
    _decided: dict[str, Reason | None] = field(factory=dict, repr=False)
    _plain: dict[str, bool] = field(factory=dict, repr=False)
    _beside: dict[tuple[str, Device, int], Placed] = field(factory=dict, repr=False)

    def beside(self, name: str, placed: Placed) -> Placed:
        """Return the place of what is beside a variable because it follows it, one for all that does."""
        key = name, placed.device, id(placed.reason)  # which its place keeps alive
        if key not in self._beside:
            self._beside[key] = Placed(placed.device, following(name, placed))
        return self._beside[key]

    @cached_property
    def constants(self) -> Mapping[str, Sequence[tuple[int, str]]]:
        """The constants that ops take, each with the number of the input, by the names of the ops."""
        node = self.template.fragment.node
        known = {own for own, each in node.items() if each.op == "Const"}
        taken = {own: [at for at in enumerate(each.input) if at[1] in known] for own, each in node.items()}
        return {own: each for own, each in taken.items() if each}

    @cached_property
    def running(self) -> frozenset[str]:
        """The ops that are loops, branches or calls."""
        return frozenset(own for own, node in self.template.fragment.node.items() if runs_functions(node))

    def forward(self, inner: str) -> str | None:
        """Return the op that `inner` differentiates, or None if `inner` is not a gradient."""
        found = self.template.follows.get(inner)
        gathers = (each.gather for each in self.usage.lookups.values() if each.cast == found)
        return next(gathers, found) if found in self.usage.gone else found

    def decide(self, inner: str, tower: Tower) -> Reason | None:
        """Return the rule that decides the place of the op called `inner`, or None if no rule matches it.

        Args:
            tower: Any tower, because the answer is the same for all clones.
        """
        if inner not in self._decided:
            ruled = self.stages(tower).reasons.get if self.staged else partial(self._ruled, tower=tower)
            self._decided[inner] = ruled(inner)
        return self._decided[inner]

    def stages(self, tower: Tower) -> Stages:
        """Return the stages of the ops; the numbers are the same for all clones."""
        if self._stages is None:
            self._stages = stages_of(self.template, partial(self._ruled, tower=tower))
        return self._stages

    def _ruled(self, inner: str, tower: Tower) -> Reason | None:
        return self.rulebook.decide_op(inner, tower, self.forward(inner))

    def is_plain(self, inner: str, tower: Tower) -> bool:
        """Whether an op is where its tower is, because nothing else decides its place."""
        if inner not in self._plain:
            elsewhere = inner in self.usage.on_cpu or self.table_of(inner) is not None
            self._plain[inner] = not elsewhere and self.decide(inner, tower) is None
        return self._plain[inner]

    def table_of(self, inner: str) -> str | None:
        """Return the weight whose rows an op looks up, or takes the gradient by; None for other ops."""
        return self.usage.at_table.get(inner) or self.usage.at_table.get(self.forward(inner) or "")


@define
class TowerPlaces:
    """The places in one tower."""

    layout: Layout = field(repr=False)
    tower: Tower
    # The place of each variable that the tower reads, except those in pieces.
    weights: Mapping[str, Placed] = field(repr=False)
    own: Placed = field(init=False)
    _ports: dict[str, Device] = field(factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        self.own = Placed(self.tower.device, self.tower.reason)

    def of(self, inner: str) -> Placed:
        """Return the place of the op called `inner`."""
        if self.layout.is_plain(inner, self.tower):
            return self.own
        table = self.layout.table_of(inner)
        if table not in self.weights:  # rows of a table in pieces are put together where they are used
            table = None
        reason = self.layout.decide(inner, self.tower)
        if table is not None:
            return self._at_table(inner, table, reason)
        if reason is not None:
            return Placed(self.layout.rulebook.op_device(reason, self.tower), reason)
        kind = self.layout.usage.on_cpu.get(inner)
        if kind is not None and self.tower.device.kind == "gpu":
            return self.layout.rulebook.on_cpu(kind, self.tower)
        return self.own

    def _at_table(self, inner: str, table: str, beaten: Reason | None) -> Placed:
        """Return the place of a look-up, or of its gradient, which no rule for ops moves from its table."""
        home = self.weights[table]
        rules: tuple[ir.Rule, ...] = ()
        if beaten is not None and beaten.rule is not None:
            rules = (*beaten.beaten, beaten.rule)
        reason, forward = following(table, home), self.layout.forward(inner)
        if forward is not None:
            reason = Reason(forward, "follows", reason.rule, cause=reason)
        return Placed(home.device, evolve(reason, beaten=rules))

    def put_port(self, port: str, device: Device) -> None:
        """Note the device on which the value of a port is made."""
        self._ports[port] = device

    def made_at(self, tensor: str) -> Device:
        """Return the device on which a tensor is made."""
        base = tensor.partition(":")[0]
        return self._ports[base] if base in self._ports else self.of(base).device
