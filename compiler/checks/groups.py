"""Check that groups of devices can be filled, and that `group[k]` names one of a group's devices."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.placement.rules import Rulebook
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors


def groups_fit_devices(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report a group for which there are too few devices, and an index beyond the size of a group."""
    book = Rulebook(spec.place.rules, topology)
    reason = book.decide("clones")
    size = 1
    if reason is not None and reason.rule is not None and isinstance(reason.rule.target, ir.Groups):
        size = reason.rule.target.size
        devices = len(topology.resolve_set(reason.rule.target.devices))
        if devices < size:
            yield errors.clones_exceed_group(
                reason.rule.target.span, size=size, devices=devices, label=spec.devices.span
            )
    for rule in spec.place.rules:
        if isinstance(rule.target, ir.GroupMember) and rule.target.index >= size:
            yield errors.no_group_member(
                rule.target.span, index=rule.target.index, size=size, several=size > 1
            )
