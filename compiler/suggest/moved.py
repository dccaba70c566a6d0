"""What a placement comes to whose variables are elsewhere, without building its graph.

The ops of a step that follow a variable go with it, and all else stays. So the step, the bytes of the
devices and what is sent are those of a graph that was built, with other devices. Variables that are cut or
copied make another graph and are not dealt with here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from compiler.mapping.records import MapDevice, MapTransfer, MapVariable, PlacementMap
from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import place_variables
from compiler.plan import Plan, VariableInfo
from compiler.suggest.steps.origin import Origin
from compiler.suggest.steps.peaks import peaks
from compiler.suggest.steps.result import Written
from compiler.suggest.steps.weights import held_bytes
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


def written_map(placement: PlacementMap, origin: Origin, written: Written) -> PlacementMap:
    """Return a map with the devices, variables and transfers of a step that was written.

    Its ops are those of the old one. What the tensors of a step need on a device grows or shrinks in
    proportion to what the two steps need there, each in an order in which its ops could run.

    Args:
        placement: The map of the graph.
        origin: Its step.
        written: The step that was written.
    """
    before, after = _totals([each.held for each in origin.weights.values()]), held_bytes(written.placements)
    peaks_before, peaks_after = origin.peaks, peaks(written.work)
    devices = []
    for each in placement.devices:
        old, new = before.get(each.ref, (0, 0)), after.get(each.ref, (0, 0))
        found = _with(each, new[0] - old[0], new[1] - old[1])
        if found.step_bytes is not None and found.memory_bytes is not None:
            step = _step_bytes(found.step_bytes, peaks_before[each.ref], peaks_after[each.ref])
            memory = found.memory_bytes + step - found.step_bytes
            found = evolve(found, step_bytes=step, memory_bytes=memory, largest=())
        devices.append(found)
    variables = _variables(placement, written)
    return evolve(placement, devices=tuple(devices), variables=variables, transfers=_transfers(written.work))


def _step_bytes(step: int, before: int, after: int) -> int:
    """Return what the tensors of a step need on a device, by what is known of the other step."""
    return step * after // before if before else step + after


def _totals(held: Sequence[Mapping[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Return the sums of bytes by device."""
    found: dict[str, tuple[int, int]] = {}
    for each in held:
        for ref, (variables, slots) in each.items():
            old = found.get(ref, (0, 0))
            found[ref] = (old[0] + variables, old[1] + slots)
    return found


def _variables(placement: PlacementMap, written: Written) -> tuple[MapVariable, ...]:
    """Return the variables of a map with the places of a step that was written."""
    known: dict[str, MapVariable] = {}
    for each in placement.variables:
        known.setdefault(each.name if each.shard is None else each.shard.of, each)
    found = []
    for placed in written.placements:
        info, old = placed.info, known[placed.info.weight]
        kinds = {each.name.removeprefix(f"{old.name}/").partition("/")[0]: each for each in old.slots}
        homes = [each.ref for each in placed.copies] or [placed.slots.device.ref]
        slots = tuple(
            evolve(each, name=f"{info.name}/{kind}", device=home, bytes=info.slot_bytes // len(kinds))
            for home in homes
            for kind, each in kinds.items()
        )
        found.append(
            evolve(
                old,
                name=info.name,
                shape=info.shape,
                bytes=info.bytes,
                device=(placed.copies or (placed.placed.device,))[0].ref,
                copies=tuple(each.ref for each in placed.copies),
                slots=slots,
                shard=None,
            )
        )
    return tuple(found)


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
    sent: dict[tuple[str, str], list[int]] = {}
    for (source, tensor, target), size in crossings(work).items():
        if tensor:
            sent.setdefault((work.ops[source].device.ref, target.ref), []).append(size)
    return tuple(
        MapTransfer(*pair, tensors=len(found), bytes=sum(found), bytes_unknown=0)
        for pair, found in sorted(sent.items())
    )
