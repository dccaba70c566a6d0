"""What each op of a map holds and costs in a step, for the table of scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from compiler.kinds.names.templates import escaped
from compiler.kinds.records.kind_map import AnyMap, KindMap
from compiler.kinds.records.sets import Kinds, numbers_of
from compiler.report.page.details import Details

Cost: TypeAlias = tuple[int, int, int, float]
"""The bytes of the variable that an op holds, and what the op takes in a step: FLOPs, the bytes that it reads
and writes, and microseconds by the forecast."""

FREE: Cost = (0, 0, 0, 0.0)


def measures(details: Details) -> list[str]:
    """Return what the table of scopes can show: numbers of ops, and the parts of a cost that are known."""
    known = ["ops", "held"]
    if details.work is not None or details.time is not None:
        known += ["flops", "bytes"]
    return known if details.time is None else [*known, "time"]


def op_costs(placement: AnyMap, details: Details) -> Mapping[str, Cost]:
    """Return the costs of ops by their names; an op that is missing holds nothing and costs nothing.

    The names are templates if the map is by kinds.

    Args:
        placement: The map, of any version.
        details: What is known of the step beside the map: its work, and its forecast if there is one.
    """
    held = _held(placement)
    times = _microseconds(details)
    work = details.work or (details.time.work if details.time is not None else None)
    found: dict[str, Cost] = {name: (size, 0, 0, 0.0) for name, size in held.items()}
    names = _templates(placement) if isinstance(placement, KindMap) and work is not None else {}
    for op in work.ops if work is not None else ():
        name = names.get(op.name, op.name)
        found[name] = (
            held.get(name, 0),
            op.flops * op.times,
            op.bytes * op.times,
            round(times.get(op.name, 0.0), 3),
        )
    return found


def _templates(placement: KindMap) -> dict[str, str]:
    """Return the templates of the names of ops by the name of the last of each kind, which stands for all."""
    kinds = Kinds(placement)
    found = {}
    for each in placement.op_kinds:
        numbers = placement.kinds[each.of]
        last = (numbers_of(numbers.tasks)[-1], numbers_of(numbers.clones)[-1])
        found[kinds.template(each.like.name).at(kinds.numbers, *last)] = each.like.name
    return found


def _held(placement: AnyMap) -> dict[str, int]:
    """Return the bytes of variables, their copies and their slots, by the names of the ops that hold them."""
    found: dict[str, int] = {}
    if isinstance(placement, KindMap):
        for kind in placement.variable_kinds:
            name = escaped(kind.like.name)
            found |= {name: kind.like.bytes, f"{name}/replica_{{clone}}": kind.like.bytes}
            found |= {slot.like.name: slot.like.bytes for slot in kind.slots}
        return found
    for each in placement.variables:
        found[each.name] = each.bytes
        found |= {f"{each.name}/replica_{copy}": each.bytes for copy in range(1, len(each.copies))}
        found |= {slot.name: slot.bytes for slot in each.slots}
    return found


def _microseconds(details: Details) -> Mapping[str, float]:
    if details.time is None:
        return {}
    found: dict[str, float] = defaultdict(float)
    simulated, ops = details.time.simulated, details.time.work.ops
    for bar in simulated.bars:
        found[ops[bar.op].name] += (bar.end - bar.start) * 1e6 / simulated.updates
    return found
