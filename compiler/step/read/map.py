"""The placement map of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from attrs import define, field, frozen

from compiler.compatibility import replication_of
from compiler.mapping.records import (
    MapAssumption,
    MapClone,
    MapDevice,
    MapMode,
    MapOp,
    MapShard,
    MapSlot,
    MapSpec,
    MapTime,
    MapTransfer,
    MapVariable,
    Pipelined,
    PlacementMap,
    RuleRef,
)
from compiler.plan import Plan, WorkerPlan
from compiler.reasons import Reason
from compiler.shards import Shard
from compiler.step.read.cluster import of_all_workers, widen
from compiler.step.read.held import held_by_device
from compiler.step.read.memory import StepMemory
from compiler.step.read.transfers import list_transfers
from compiler.step.read.why import group_of
from compiler.step.step import Slot, Step, Variable
from compiler.topology import Device


@frozen
class Found:
    """What is known of a step besides its ops."""

    # The full name of the device on which each op ran, by op name, as far as it is known.
    assigned: Mapping[str, str] = field(factory=dict)
    # The peak of each device, by its name in specs. Without it the map has no memory of a step.
    memory: Mapping[str, StepMemory] = field(factory=dict)
    time: MapTime | None = None
    # The bytes of tensors whose sizes depend on the examples, if they are known: in the step of each worker
    # with a graph of its own, else in the step as the only one.
    sizes: Sequence[Mapping[str, int]] | None = None
    sent: tuple[MapTransfer, ...] | None = None  # what a step of all workers sends, if that is known
    # The same step with sizes of what it sends, if it has none itself for axes without fixed ones.
    sized: Step | None = None


def map_step(step: Step, tensorflow: str, found: Found) -> PlacementMap:
    """Return the placement map of a step."""
    plan, sizes, sent, sized = step.plan, found.sizes, found.sent, found.sized or step
    own_sizes = None if sizes is None else sizes[plan.worker.index if isinstance(plan, WorkerPlan) else 0]
    rules = _Rules()
    ops = tuple(_ops(step, found.assigned, rules))
    own = PlacementMap(
        spec=MapSpec(plan.spec.path, plan.spec.sha256),
        tensorflow=tensorflow,
        mode=_mode(step),
        devices=_devices(step, ops, found.memory),
        clones=tuple(
            MapClone(each.index, each.scope, tuple(device.ref for device in each.devices), each.batch)
            for each in plan.towers
        ),
        variables=tuple(_variable(step, each, rules) for each in step.variables.values()),
        ops=ops,
        transfers=list_transfers(sized, sizes=own_sizes) if sent is None else sent,
        misplaced=tuple(each for each in ops if each.assigned not in (None, each.requested))
        if found.assigned
        else (),
        time=found.time,
        assumptions=tuple(
            MapAssumption(node.name, each.axis, each.assumed, each.source)
            for node in plan.model.inputs
            for each in node.free
        ),
    )
    if not isinstance(plan, WorkerPlan):
        return own
    transfers = of_all_workers(own.transfers, sized, plan, sizes) if sent is None else sent
    return widen(own, step, plan, transfers)


def _mode(step: Step) -> MapMode:
    plan, update = step.plan, step.plan.update
    replication = replication_of(plan.spec)
    clones = len(plan.all_towers)
    own = update.mode, replication, update.aggregate.name, update.reduce, clones, plan.recomputed
    return MapMode(*own, _pipelined(step))


def _pipelined(step: Step) -> Pipelined | None:
    """Return how the devices of a clone take its micro-batches, if at the same time."""
    plan = step.plan
    if plan.update.schedule is None:
        return None
    first = plan.towers[0]
    stages = {op.device for op in step.ops.values() if op.clone == first.index and op.role == "forward"}
    return Pipelined(plan.update.schedule, len(stages & {*first.devices}), plan.micro_batches)


@define
class _Rules:
    """The records of reasons. Each is made once, because tens of thousands of ops share a few."""

    _made: dict[tuple[str, str, int, int], tuple[Reason, RuleRef]] = field(factory=dict)  # and kept alive

    def of(self, reason: Reason) -> RuleRef:
        """Return the record of a reason."""
        key = reason.text, reason.kind, id(reason.rule), id(reason.root)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = (reason, RuleRef.of(reason))
        return found[1]


def _ops(step: Step, assigned: Mapping[str, str], rules: _Rules) -> Iterable[MapOp]:
    refs = {step.plan.tensorflow_device(each): each.ref for each in step.plan.topology.devices}
    known: dict[int, tuple[str, RuleRef]] = {}  # by the identity of a place, which its op keeps alive
    for name, op in step.ops.items():
        real, placed = assigned.get(name) if assigned else None, op.placed
        found = known.get(id(placed))
        if found is None:
            found = known[id(placed)] = placed.device.ref, rules.of(placed.reason)
        ran = None if real is None else refs.get(real, real)
        yield MapOp(name, op.type, op.clone, op.role, found[0], ran, found[1])


def _variable(step: Step, variable: Variable, rules: _Rules) -> MapVariable:
    placement = variable.placement
    info, group = placement.info, group_of(step, variable)
    return MapVariable(
        name=info.name,
        shape=info.shape,
        dtype=info.dtype,
        bytes=info.bytes,
        trainable=info.trainable,
        device=placement.placed.device.ref,
        copies=tuple(each.ref for each in placement.copies),
        slots=tuple(MapSlot(each.name, each.bytes, each.device.ref, _cut(each)) for each in variable.slots),
        rule=rules.of(placement.placed.reason),
        shard=None if info.shard is None else _piece(info.shard, made_whole=variable.made_whole),
        fewer=placement.fewer,
        group=None if group is None or group.span is None else " ".join(group.span.text.split()),
    )


def _piece(shard: Shard, *, made_whole: bool) -> MapShard:
    return MapShard(shard.of, shard.number, shard.count, shard.axis, shard.start, shard.whole, made_whole)


def _cut(slot: Slot) -> MapShard | None:
    shard = slot.shard
    if shard is None:
        return None
    of = f"{shard.of}{slot.name.removeprefix(shard.name)}"
    return MapShard(of, shard.number, shard.count, shard.axis, shard.start, shard.cut_shape)


def _devices(step: Step, ops: Iterable[MapOp], memory: Mapping[str, StepMemory]) -> tuple[MapDevice, ...]:
    counts, held = Counter(map(attrgetter("requested"), ops)), held_by_device(step)
    return tuple(
        _device(step.plan, each, counts[each.ref], held[each.ref], memory.get(each.ref))
        for each in step.plan.topology.devices
    )


def _device(
    plan: Plan, device: Device, ops: int, held: Mapping[str, int], step: StepMemory | None
) -> MapDevice:
    declared = plan.spec.devices
    return MapDevice(
        ref=device.ref,
        device=plan.tensorflow_device(device),
        ops=ops,
        variable_bytes=held["variable"],
        slot_bytes=held["slot"],
        other_bytes=held["other"],
        step_bytes=None if step is None else step.bytes,
        memory_bytes=None if step is None else sum(held.values()) + step.bytes,
        largest=() if step is None else step.largest,
        memory_limit=declared.gpu_memory if device.kind == "gpu" else declared.cpu_memory,
    )
