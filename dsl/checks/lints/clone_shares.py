"""A lint that the clones are spread evenly over their devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir
from dsl.checks.declared import declared, named, written
from dsl.errors import lint
from dsl.ir.place import PARAMETER_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def clone_shares(facts: Facts) -> Iterator[Diagnostic]:
    """Report devices that have more clones than others, and CPUs of the rule for clones that get no clone.

    GPUs that get nothing at all are reported by another lint.
    """
    devices, place, clones = facts.devices, facts.place, facts.clones
    if devices is None or place is None or clones is None or clones.count is None:
        return
    count, at = clones.count, clones.spans.get("count")
    rules = [rule for rule in place.rules if rule.selector.role == "clones"]
    target = rules[-1].target if rules else None
    size = target.size if isinstance(target, ir.Groups) else 1
    if isinstance(target, ir.Groups):
        target = target.devices
    everything = declared(devices)
    if isinstance(target, ir.DeviceSet):
        given = named(everything, target)
    else:
        trainers = [each for each in everything if each[0] != PARAMETER_SERVER]
        given = [each for each in trainers if each[2] == "gpu"] or [
            each for each in trainers if each[2] == "cpu"
        ]
    places = len(given) // size
    if at is None or not places:
        return
    if count > places and count % places:
        yield lint.uneven_clones(count, places, size, at)
    idle = [written(each) for each in given[count * size :] if each[2] == "cpu"]
    if count < places and idle and rules:
        yield lint.devices_without_clones(at, names=idle, of=len(given), rule=rules[-1].span)
