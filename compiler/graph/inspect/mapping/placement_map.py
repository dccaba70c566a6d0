"""Make the placement map of a compiled graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.compatibility import replication_of
from compiler.graph.dtypes import size_in_bytes
from compiler.graph.inspect.devices.of_worker import Moves
from compiler.graph.inspect.mapping.cluster_map import HeldBytes, of_all_workers, widen
from compiler.graph.inspect.mapping.explain import group_of
from compiler.graph.inspect.mapping.given_batch import sizes_for
from compiler.graph.inspect.step.transfers import list_transfers
from compiler.graph.variables.variables import AVERAGE, GraphVariable
from compiler.kinds.growing.workers import Held
from compiler.mapping.records import (
    MapAssumption,
    MapClone,
    MapDevice,
    MapMode,
    MapOp,
    MapShard,
    MapSlot,
    MapSpec,
    MapTransfer,
    MapVariable,
    PlacementMap,
    RuleRef,
)
from compiler.mapping.step_time import MapTime
from compiler.plan import Plan, WorkerPlan
from compiler.reasons import Reason
from compiler.topology import Device

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.inspect.memory.forecast import StepMemory

VARIABLE = "VarHandleOp"


def map_placement(
    compiled: CompiledGraph,
    assigned: Mapping[str, str] | None = None,
    memory: Mapping[str, StepMemory] | None = None,
    time: MapTime | None = None,
    *,
    batch: Mapping[str, Any] | None = None,
    sent: tuple[MapTransfer, ...] | None = None,
) -> PlacementMap:
    """Return the placement map of a compiled graph.

    Args:
        compiled: The graph.
        assigned: The full name of the device on which each op ran, by op name, as `read_assigned` returns it.
            Ops that it lacks have no `assigned` device in the map.
        memory: The peak of a step by the device's name in specs, as `forecast_step_memory` returns it.
            Without it the map has no memory of a step.
        time: The forecast of the time of a step, if there is one.
        batch: The examples of a step of all towers, an array for each input. A step is run on a copy of the
            graph, and transfers have the bytes of this step, also of rows that are looked up in tables in
            pieces. If each worker has a graph of its own, the steps of all workers are run on that copy.
        sent: The transfers of the map, if they are already known; by default they are those of a step of all
            workers.
    """
    assigned, memory, plan = assigned or {}, memory or {}, compiled.plan
    sizes = None if batch is None else sizes_for(compiled, batch)
    own_sizes = None if sizes is None else sizes[plan.worker.index if isinstance(plan, WorkerPlan) else 0]
    refs = {plan.tensorflow_device(each): each.ref for each in plan.topology.devices}
    rules = _Rules()
    ops = tuple(_ops(compiled, assigned, refs, rules))
    own = PlacementMap(
        spec=MapSpec(plan.spec.path, plan.spec.sha256),
        tensorflow=tf.__version__,
        mode=_mode(plan),
        devices=_devices(compiled, ops, memory),
        clones=tuple(
            MapClone(each.index, each.scope, tuple(device.ref for device in each.devices), each.batch)
            for each in plan.towers
        ),
        variables=tuple(_variable(compiled, each, rules) for each in compiled.variables.values()),
        ops=ops,
        transfers=list_transfers(compiled, sizes=own_sizes) if sent is None else sent,
        misplaced=tuple(each for each in ops if each.assigned not in (None, each.requested)),
        time=time,
        assumptions=tuple(
            MapAssumption(node.name, each.axis, each.assumed, each.source)
            for node in plan.model.inputs
            for each in node.free
        ),
    )
    if not isinstance(plan, WorkerPlan):
        return own
    transfers = of_all_workers(own.transfers, compiled, plan, sizes) if sent is None else sent
    return widen(own, compiled, plan, transfers, _held_for_all(compiled))


def _mode(plan: Plan) -> MapMode:
    update = plan.update
    replication = replication_of(plan.spec)
    return MapMode(update.mode, replication, update.aggregate.name, update.reduce, len(plan.all_towers))


@define
class _Rules:
    """The records of reasons. Each is made once, because tens of thousands of ops share a few."""

    _made: dict[int, tuple[Reason, RuleRef]] = field(factory=dict)  # by identity; the reason is kept alive

    def of(self, reason: Reason) -> RuleRef:
        """Return the record of a reason."""
        found = self._made.get(id(reason))
        if found is None:
            found = self._made[id(reason)] = (reason, RuleRef.of(reason))
        return found[1]


def _ops(
    compiled: CompiledGraph, assigned: Mapping[str, str], refs: Mapping[str, str], rules: _Rules
) -> Iterable[MapOp]:
    entries = compiled.ledger.entries
    for op in compiled.graph.get_operations():
        entry = entries[op.name]
        real = assigned.get(op.name)
        yield MapOp(
            name=op.name,
            type=op.type,
            clone=entry.clone,
            role=entry.role,
            requested=entry.device.ref,
            assigned=None if real is None else refs.get(real, real),
            rule=rules.of(entry.placed.reason),
        )


def _variable(compiled: CompiledGraph, variable: GraphVariable, rules: _Rules) -> MapVariable:
    info, home = variable.info, variable.placement.placed
    return MapVariable(
        name=info.name,
        shape=info.shape,
        dtype=info.dtype,
        bytes=info.bytes,
        trainable=info.trainable,
        device=home.device.ref,
        copies=tuple(each.ref for each in variable.placement.copies),
        slots=tuple(
            MapSlot(name, _size(slot), owner.slot_place(copy).device.ref, _slot_shard(name, slot, owner))
            for name, slot, owner, copy in _slots(variable)
        ),
        rule=rules.of(home.reason),
        shard=_shard(variable),
        fewer=variable.placement.fewer,
        group=_group(compiled, variable),
    )


def _group(compiled: CompiledGraph, variable: GraphVariable) -> str | None:
    group = group_of(compiled, variable.name)
    return None if group is None or group.span is None else " ".join(group.span.text.split())


def _shard(variable: GraphVariable) -> MapShard | None:
    shard = variable.info.shard
    if shard is None:
        return None
    whole = variable.info.initializer.made_whole
    return MapShard(shard.of, shard.number, shard.count, shard.axis, shard.start, shard.whole, whole)


def _slot_shard(name: str, slot: Any, owner: GraphVariable) -> MapShard | None:
    """Return the piece of a slot; None for a whole slot, and for one that has not the shape of its piece."""
    shard = owner.info.shard
    if shard is None or tuple(slot.shape.as_list()) != shard.shape:
        return None
    of = f"{shard.of}{name.removeprefix(shard.name)}"
    return MapShard(of, shard.number, shard.count, shard.axis, shard.start, shard.cut_shape)


def _slots(variable: GraphVariable) -> Iterator[tuple[str, Any, GraphVariable, int]]:
    """Yield name, tf.Variable, owner and number of the copy for each slot, and for the moving average.

    The owner is the variable, or a part of it that a clone updates.
    """
    for each in variable.updated:
        for suffix, copies in each.slots.items():
            for copy, slot in enumerate(copies):
                yield f"{each.name}/{suffix}" + (f"/replica_{copy}" if copy else ""), slot, each, copy
        if each.average is not None:
            yield f"{each.name}/{AVERAGE}", each.average, each, 0


def _size(variable: Any) -> int:
    return size_in_bytes(variable.shape.as_list(), variable.dtype.name) or 0


def _devices(
    compiled: CompiledGraph, ops: Iterable[MapOp], memory: Mapping[str, StepMemory]
) -> tuple[MapDevice, ...]:
    """Count ops and bytes; all handles of one name on a device are of the same variable."""
    plan, counts = compiled.plan, Counter(op.requested for op in ops)
    held: dict[str, Counter[str]] = {"variable": Counter(), "slot": Counter(), "other": Counter()}
    for each, kind in held_by_graph(compiled):
        held[kind][each.device] += each.bytes
    return tuple(_device(plan, each, counts, held, memory.get(each.ref)) for each in plan.topology.devices)


def held_by_graph(compiled: CompiledGraph) -> Iterator[tuple[Held, str]]:
    """Yield each variable of a graph once, and whether it is a `variable` of the model, a `slot` or `other`.

    Args:
        compiled: The graph.
    """
    kinds = _kinds(compiled.variables.values())
    handles = [op for op in compiled.graph.get_operations() if op.type == VARIABLE]
    for op in {(op.get_attr("shared_name"), op.device): op for op in handles}.values():
        shape = tf.TensorShape(op.get_attr("shape"))
        # A mailbox for rows has no shape, and holds nothing before a worker puts rows there.
        size = size_in_bytes(shape.as_list(), op.get_attr("dtype").name) if shape.rank is not None else 0
        device = compiled.ledger.entries[op.name].device
        yield Held(op.name, device.ref, size or 0), kinds.get(op.name, "other")


def _held_for_all(compiled: CompiledGraph) -> dict[str, HeldBytes]:
    """Return what devices of the chief hold for all workers, by the name of the device."""
    moves = Moves(compiled)
    held: dict[str, Counter[str]] = {}
    for each, kind in held_by_graph(compiled) if moves.some_stay else ():
        if moves.is_shared(each.name):
            held.setdefault(each.device, Counter())[kind] += each.bytes
    return {ref: HeldBytes(each["variable"], each["slot"], each["other"]) for ref, each in held.items()}


def _kinds(variables: Iterable[GraphVariable]) -> dict[str, str]:
    """Return for each handle whether it is of a variable of the model or of one of its slots."""
    kinds: dict[str, str] = {}
    for variable in variables:
        kinds |= {slot.handle.op.name: "slot" for _, slot, _, _ in _slots(variable)}
        kinds |= {each.handle.op.name: "variable" for each in variable.copies}
    return kinds


def _device(
    plan: Plan,
    device: Device,
    counts: Mapping[str, int],
    held: Mapping[str, Mapping[str, int]],
    step: StepMemory | None,
) -> MapDevice:
    ref, declared = device.ref, plan.spec.devices
    variable, slot, other = (held[kind][ref] for kind in ("variable", "slot", "other"))
    return MapDevice(
        ref=ref,
        device=plan.tensorflow_device(device),
        ops=counts[ref],
        variable_bytes=variable,
        slot_bytes=slot,
        other_bytes=other,
        step_bytes=None if step is None else step.bytes,
        memory_bytes=None if step is None else variable + slot + other + step.bytes,
        largest=() if step is None else step.largest,
        memory_limit=declared.gpu_memory if device.kind == "gpu" else declared.cpu_memory,
    )
