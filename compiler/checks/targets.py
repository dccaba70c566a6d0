"""Check that every placement names at least one device."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.placement.rules import Rulebook, rule_text
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors


def targets_name_devices(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report a rule whose set of devices is empty, and clones without a device."""
    for rule in spec.place.rules:
        target = rule.target
        devices = target if isinstance(target, ir.DeviceSet) else getattr(target, "devices", None)
        if devices is not None and not topology.resolve_set(devices):
            yield errors.no_device(
                target.span or rule.span, what=f"`{rule.selector.role}`", text=rule_text(rule)
            )
    groups, reason = Rulebook(spec.place.rules, topology).clone_groups()
    if not groups and reason.rule is None:
        yield errors.no_device(spec.devices.span, what="`clones`", text=reason.text)
