"""A check that what can only be on one device is placed on one device."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dsl import ir
from dsl.checks.declared import declared, named
from dsl.errors import placement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic

_SINGLE = frozenset({"evaluation", "summaries"})


def single_places(facts: Facts) -> Iterator[Diagnostic]:
    """Report rules that place evaluation or summaries on several devices of one task; only one is used."""
    devices, place = facts.devices, facts.place
    if devices is None or place is None:
        return
    everything = declared(devices)
    for rule in place.rules:
        if rule.selector.role in _SINGLE and isinstance(rule.target, ir.DeviceSet):
            found = named(everything, rule.target)
            tasks = Counter(each[:2] for each in dict.fromkeys(found))
            if any(count > 1 for count in tasks.values()):
                yield placement.one_device_only(
                    rule.target.span or rule.span, role=rule.selector.role, count=max(tasks.values())
                )
