"""Draw up the placement map of a compiled graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import tensorflow as tf

from compiler.graph.transfers import list_transfers
from compiler.graph.variables import GraphVariable
from compiler.placement_map import (
    MapClone,
    MapDevice,
    MapMode,
    MapOp,
    MapSlot,
    MapSpec,
    MapVariable,
    PlacementMap,
    RuleRef,
)
from compiler.plan import Plan, Why

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


def map_placement(compiled: CompiledGraph, assigned: Mapping[str, str]) -> PlacementMap:
    """Return the map; `assigned` gives the real device of each op that has run, by op name."""
    plan = compiled.plan
    refs = {plan.tensorflow_device(each): each.ref for each in plan.topology.devices}
    rules: dict[Why, RuleRef] = {}
    ops = tuple(_ops(compiled, assigned, refs, rules))
    variables = tuple(_variable(each, rules) for each in compiled.variables.values())
    return PlacementMap(
        spec=MapSpec(plan.spec.path, plan.spec.sha256),
        tensorflow=tf.__version__,
        mode=_mode(plan),
        devices=_devices(plan, ops, compiled.variables.values()),
        clones=tuple(
            MapClone(each.index, each.scope, tuple(device.ref for device in each.devices), each.batch)
            for each in plan.towers
        ),
        variables=variables,
        ops=ops,
        transfers=list_transfers(compiled),
        misplaced=tuple(each for each in ops if each.assigned not in (None, each.requested)),
    )


def _mode(plan: Plan) -> MapMode:
    update = plan.update
    replication = update.replication or (
        "between_graph" if update.mode == "async" and plan.spec.devices.jobs else "in_graph"
    )
    return MapMode(update.mode, replication, update.aggregate.name, update.reduce, len(plan.towers))


def _ops(
    compiled: CompiledGraph, assigned: Mapping[str, str], refs: Mapping[str, str], rules: dict[Why, RuleRef]
) -> Iterable[MapOp]:
    for op in compiled.graph.get_operations():
        entry = compiled.ledger.entries[op.name]
        real = assigned.get(op.name)
        yield MapOp(
            name=op.name,
            type=op.type,
            clone=entry.clone,
            role=entry.role,
            requested=entry.device.ref,
            assigned=None if real is None else refs.get(real, real),
            rule=_rule(entry.placed.why, rules),
        )


def _rule(why: Why, known: dict[Why, RuleRef]) -> RuleRef:
    if why not in known:
        known[why] = RuleRef.of(why)
    return known[why]


def _variable(variable: GraphVariable, rules: dict[Why, RuleRef]) -> MapVariable:
    info, home = variable.info, variable.placement.placed
    slot_device = variable.placement.slots.device.ref
    names = [f"{info.name}/{suffix}" for suffix in variable.slots]
    names += [f"{info.name}/ExponentialMovingAverage"] if variable.average is not None else []
    return MapVariable(
        name=info.name,
        shape=info.shape,
        dtype=info.dtype,
        bytes=info.bytes,
        trainable=info.trainable,
        device=home.device.ref,
        copies=tuple(each.ref for each in variable.placement.copies),
        slots=tuple(MapSlot(name, info.bytes, slot_device) for name in names),
        rule=_rule(home.why, rules),
    )


def _devices(plan: Plan, ops: Iterable[MapOp], variables: Iterable[GraphVariable]) -> tuple[MapDevice, ...]:
    counts = Counter(op.requested for op in ops)
    held: Counter[str] = Counter()
    slots: Counter[str] = Counter()
    for variable in variables:
        for copy in range(len(variable.copies)):
            held[variable.device_of(copy).ref] += variable.info.bytes
            home = variable.slot_place(copy).device.ref
            slots[home] += variable.info.bytes * len(variable.slots)
        if variable.average is not None:
            slots[variable.slot_place(0).device.ref] += variable.info.bytes
    return tuple(
        MapDevice(each.ref, plan.tensorflow_device(each), counts[each.ref], held[each.ref], slots[each.ref])
        for each in plan.topology.devices
    )
