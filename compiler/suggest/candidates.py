"""The rules for variables, and for their slots, that are tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.placement.balance import spread_by_bytes
from compiler.placement.rules import rule_text
from compiler.plan import Plan
from compiler.suggest.changes import Changes
from compiler.topology import Device, Topology
from dsl import ir
from dsl.ir.place import PARAMETER_SERVER

EVEN = 1.01
"""Variables are shared out evenly if no device has more than this times an equal share of their bytes."""


def variable_changes(plan: Plan, sizes: Sequence[int] = ()) -> Iterator[Changes]:
    """Yield other places of all variables of a plan, in which no clone keeps a part of the slots."""
    slots = {"slots": _rules_of_slots(plan)} if len(plan.all_towers) > 1 else {}
    for rule in variable_rules(plan.topology, sizes):
        yield Changes({"variables": (rule,), **slots})


def slot_changes(plan: Plan) -> Iterator[Changes]:
    """Yield that each of several clones keeps a part of the slots, which checks refuse without copies."""
    if len(plan.all_towers) > 1:
        yield Changes({"slots": ("slots -> sharded(clones)", *_rules_of_slots(plan))})


def _rules_of_slots(plan: Plan) -> tuple[str, ...]:
    """Return the rules of a spec for slots, without those that cut them over clones."""
    rules = (each for each in plan.spec.place.rules if each.selector.role == "slots")
    return tuple(rule_text(each) for each in rules if not isinstance(each.target, ir.OverClones))


def variable_rules(topology: Topology, sizes: Sequence[int] = ()) -> tuple[str, ...]:
    """Return the targets for all variables of a model that make sense on some devices, as text.

    Args:
        topology: The devices.
        sizes: The bytes of the variables with their slots, if they are not to be cut without need: pieces are
            not tried on devices on which whole variables can be shared out evenly.
    """
    targets: list[str] = []
    if topology.parameter_servers:
        sets = [(PARAMETER_SERVER, topology.parameter_servers)]
    else:
        sets = [(kind, topology.select(kind)) for kind in ("cpu", "gpu")]
    for name, devices in sets:
        if len(devices) > 1:
            targets.append(f"balanced({name}[*])")
            if not (sizes and _can_be_even(sizes, devices)):
                targets.append(f"sharded({name}[*])")
            targets += [f"round_robin({name}[*])", f"{name}[0]"]
        elif devices:
            targets.append(f"{name}[0]")
    if topology.parameter_servers:
        targets.append("cpu[0]")  # that of the chief, which sends itself nothing
        if len(topology.select("cpu")) > 1:
            targets.append("balanced(cpu[*])")  # each worker sends itself nothing of its part
    targets.append("replicated")
    return tuple(f"variables -> {each}" for each in targets)


def _can_be_even(sizes: Sequence[int], devices: Sequence[Device]) -> bool:
    """Whether `balanced` gives each of some devices about as many bytes."""
    names = [str(at) for at in range(len(sizes))]
    loads = dict.fromkeys(devices, 0)
    for device, size in zip(spread_by_bytes(names, sizes, devices, {}), sizes, strict=True):
        loads[device] += size
    return max(loads.values()) <= EVEN * sum(sizes) / len(devices)
