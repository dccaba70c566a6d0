"""Where each op of a tower goes: by a rule, with its forward op, with its table, or with the tower."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve, field

from compiler.graph.stamp.lookups import Usage
from compiler.graph.tower.template import Template
from compiler.placement.rules import Rulebook, following
from compiler.plan import Tower
from compiler.reasons import Placed, Reason
from compiler.topology import Device
from dsl import ir


@define
class Layout:
    """What is the same in all towers of a template: which rule speaks for each of its ops."""

    template: Template = field(repr=False)
    usage: Usage = field(repr=False)
    rulebook: Rulebook = field(repr=False)
    _decided: dict[str, Reason | None] = field(factory=dict, repr=False)

    def forward(self, inner: str) -> str | None:
        """Return the op that `inner` differentiates, None where it is no gradient."""
        found = self.template.follows.get(inner)
        gathers = (each.gather for each in self.usage.lookups.values() if each.cast == found)
        return next(gathers, found) if found in self.usage.gone else found

    def decide(self, inner: str, tower: Tower) -> Reason | None:
        """Return the rule for the op called `inner`, or None where none speaks."""
        if inner not in self._decided:
            self._decided[inner] = self.rulebook.decide_op(inner, tower, self.forward(inner))
        return self._decided[inner]

    def table_of(self, inner: str) -> str | None:
        """Return the weight of which an op looks up rows, or takes the gradient of a look-up; else None."""
        return self.usage.at_table.get(inner) or self.usage.at_table.get(self.forward(inner) or "")


@define
class TowerPlaces:
    """The places in one tower; `weights` says where each variable lives that it reads."""

    layout: Layout = field(repr=False)
    tower: Tower
    weights: Mapping[str, Placed] = field(repr=False)
    _ports: dict[str, Device] = field(factory=dict, repr=False)

    @property
    def own(self) -> Placed:
        """The place of the tower itself."""
        return Placed(self.tower.device, self.tower.reason)

    def of(self, inner: str) -> Placed:
        """Return where the op called `inner` goes, and why."""
        table = self.layout.table_of(inner)
        reason = self.layout.decide(inner, self.tower)
        if table is not None:
            return self._at_table(inner, table, reason)
        if reason is not None:
            return Placed(self.layout.rulebook.op_device(reason, self.tower), reason)
        if inner in self.layout.usage.strings and self.tower.device.kind == "gpu":
            return self.layout.rulebook.strings(self.tower)
        return self.own

    def _at_table(self, inner: str, table: str, beaten: Reason | None) -> Placed:
        """Return the place of a look-up, or of its gradient: no rule for ops takes it from its table."""
        home = self.weights[table]
        rules: tuple[ir.Rule, ...] = ()
        if beaten is not None and beaten.rule is not None:
            rules = (*beaten.beaten, beaten.rule)
        reason, forward = following(table, home), self.layout.forward(inner)
        if forward is not None:
            reason = Reason(forward, "follows", reason.rule, cause=reason)
        return Placed(home.device, evolve(reason, beaten=rules))

    def put_port(self, port: str, device: Device) -> None:
        """Note where the value is made that comes in by a port."""
        self._ports[port] = device

    def made_at(self, tensor: str) -> Device:
        """Return where the tensor is made that the template calls `tensor`."""
        base = tensor.partition(":")[0]
        return self._ports[base] if base in self._ports else self.of(base).device
