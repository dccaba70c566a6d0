"""What a placement comes to whose variables are elsewhere, without building its graph.

The ops of a step that follow a variable go with it, and all else stays. So the step, the bytes of the
devices and what is sent are those of a graph that was built, with other devices. Variables that are cut or
copied make another graph and are not dealt with here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from compiler.mapping.records import MapDevice, MapTransfer, PlacementMap
from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import place_variables
from compiler.plan import Plan, VariableInfo
from compiler.time.work import StepWork, crossings
from compiler.topology import Device
from dsl import ir


def devices_of_variables(plan: Plan, infos: Sequence[VariableInfo]) -> dict[str, Device] | None:
    """Return the device of each variable by the rules of a plan; None if these cut or copy variables.

    Args:
        plan: The plan.
        infos: The variables.
    """
    rules = plan.spec.place.rules
    if any(
        isinstance(each.target, ir.Sharded | ir.Replicated | ir.GroupMember)
        for each in rules
        if each.selector.role == "variables"
    ):
        return None
    placed = place_variables(Rulebook(rules, plan.topology), infos, plan.towers)
    return {each.info.name: each.placed.device for each in placed}


def moved_map(
    placement: PlacementMap, work: StepWork, infos: Sequence[VariableInfo], homes: Mapping[str, Device]
) -> PlacementMap:
    """Return a map with variables, and their slots, on other devices.

    Its bytes of devices and transfers are those of the new placement. Its ops are those of the old one, and
    so is what the tensors of a step need on each device.

    Args:
        placement: The map.
        work: The step with the variables where they are now.
        infos: The variables.
        homes: The new device of each variable.
    """
    before = {each.name: each for each in placement.variables}
    moved: dict[str, list[int]] = {each.ref: [0, 0] for each in placement.devices}
    for info in infos:
        old, new = before[info.name].device, homes[info.name].ref
        for ref, sign in ((old, -1), (new, 1)):
            moved[ref][0] += sign * info.bytes
            moved[ref][1] += sign * info.slot_bytes
    devices = tuple(_with(each, *moved[each.ref]) for each in placement.devices)
    return evolve(placement, devices=devices, transfers=_transfers(work))


def _with(device: MapDevice, variables: int, slots: int) -> MapDevice:
    """Return a device with more bytes of variables and slots, or fewer."""
    memory = None if device.memory_bytes is None else device.memory_bytes + variables + slots
    return evolve(
        device,
        variable_bytes=device.variable_bytes + variables,
        slot_bytes=device.slot_bytes + slots,
        memory_bytes=memory,
    )


def _transfers(work: StepWork) -> tuple[MapTransfer, ...]:
    sizes = {(each.source, each.tensor): each.bytes for each in work.arrows}
    sent: dict[tuple[str, str], list[int]] = {}
    for source, tensor, target in crossings(work):
        if tensor:
            sent.setdefault((work.ops[source].device.ref, target.ref), []).append(sizes[source, tensor])
    return tuple(
        MapTransfer(*pair, tensors=len(found), bytes=sum(found), bytes_unknown=0)
        for pair, found in sorted(sent.items())
    )
