"""What each op of a map holds and costs in a step, for the table of scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from attrs import frozen

from compiler.kinds.names.templates import escaped
from compiler.kinds.records.kind_map import KindMap
from compiler.kinds.records.sets import Kinds, numbers_of
from compiler.mapping.records import PlacementMap
from compiler.report.page.details import Details
from compiler.time.work import TimedOp

Cost: TypeAlias = tuple[int, int, int, float]
"""The bytes of the variable that an op holds, and what the op takes in a step: FLOPs, the bytes that it reads
and writes, and microseconds by the forecast."""

FREE: Cost = (0, 0, 0, 0.0)

OfKind: TypeAlias = tuple[str, int]
"""Ops of a kind: their name as a template, and the number of the kind. Two kinds can have one template."""


def measures(details: Details) -> list[str]:
    """Return what the table of scopes can show: numbers of ops, and the parts of a cost that are known."""
    known = ["ops", "held"]
    if details.work is not None or details.time is not None:
        known += ["flops", "bytes"]
    return known if details.time is None else [*known, "time"]


def op_costs(placement: PlacementMap, details: Details) -> Mapping[str, Cost]:
    """Return the costs of ops by their names; an op that is missing holds nothing and costs nothing.

    Args:
        placement: The map.
        details: What is known of the step beside the map: its work, and its forecast if there is one.
    """
    held: dict[str, int] = {}
    for each in placement.variables:
        held[each.name] = each.bytes
        held |= {f"{each.name}/replica_{copy}": each.bytes for copy in range(1, len(each.copies))}
        held |= {slot.name: slot.bytes for slot in each.slots}
    step = _Step.of(details)
    return {name: step.cost(name, held.get(name, 0)) for name in {**held, **step.ops}}


def kind_costs(placement: KindMap, details: Details) -> Mapping[OfKind, Cost]:
    """Return the costs of the ops of each kind; a kind that is missing holds nothing and costs nothing.

    Args:
        placement: The map.
        details: What is known of the step beside the map. The last op of each kind stands for all.
    """
    held: dict[str, int] = {}
    for variable in placement.variable_kinds:
        name = escaped(variable.like.name)
        held |= {name: variable.like.bytes, f"{name}/replica_{{clone}}": variable.like.bytes}
        held |= {slot.like.name: slot.like.bytes for slot in variable.slots}
    step, kinds, found = _Step.of(details), Kinds(placement), {}
    for each in placement.op_kinds:
        numbers, template = placement.kinds[each.of], each.like.name
        last = numbers_of(numbers.tasks)[-1], numbers_of(numbers.clones)[-1]
        name = kinds.template(template).at(kinds.numbers, *last)
        if template in held or name in step.ops:
            found[template, each.of] = step.cost(name, held.get(template, 0))
    return found


@frozen
class _Step:
    """What ops cost in a step.

    Attributes:
        ops: The ops that the step runs, by their names.
        microseconds: How long each takes by the forecast.
    """

    ops: Mapping[str, TimedOp]
    microseconds: Mapping[str, float]

    @classmethod
    def of(cls, details: Details) -> _Step:
        """Return what is known of a step."""
        work = details.work or (details.time.work if details.time is not None else None)
        return cls({each.name: each for each in work.ops} if work else {}, _microseconds(details))

    def cost(self, name: str, held: int) -> Cost:
        """Return the cost of an op that holds a variable of some bytes, or none."""
        op = self.ops.get(name)
        if op is None:
            return (held, 0, 0, 0.0)
        time = round(self.microseconds.get(name, 0.0), 3)
        return (held, op.flops * op.times, op.bytes * op.times, time)


def _microseconds(details: Details) -> Mapping[str, float]:
    if details.time is None:
        return {}
    found: dict[str, float] = defaultdict(float)
    simulated, ops = details.time.simulated, details.time.work.ops
    for bar in simulated.bars:
        found[ops[bar.op].name] += (bar.end - bar.start) * 1e6 / simulated.updates
    return found
