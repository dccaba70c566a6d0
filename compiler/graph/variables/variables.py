"""Variables on the devices that the rules give, under names that depend neither on mode nor on placement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.graph.ledger import Ledger
from compiler.graph.stamp.sources import CutSource, WeightSource
from compiler.graph.tower.template import WeightInfo
from compiler.graph.variables.initial import FirstValue, called, first_nodes, is_plain
from compiler.graph.variables.nodes import Initial, StepVariable, VariableWriter, ZerosOf
from compiler.placement.rules import Rulebook, following
from compiler.placement.variable_rules import pieces_of
from compiler.placement.variable_rules import place_variables as assign_devices
from compiler.plan import Plan, VariablePlacement, WorkerPlan
from compiler.reasons import Placed, Reason
from compiler.shards import Shard
from compiler.step.record import Fragment, Tensor
from compiler.topology import Device

AVERAGE = "ExponentialMovingAverage"  # suffix of the name of a moving average
MEAN = "mean"  # suffix of the name of the mean of copies


@frozen
class SlotSpec:
    """A slot of an optimizer."""

    suffix: str
    # The first value of its elements, or a function that makes its first value.
    initial: float | Callable[[], tf.Tensor] = 0.0
    shape: tuple[int, ...] | None = None  # its shape; None for that of the weight
    dtype: str | None = None  # its type; None for that of the weight

    def bytes_for(self, weight: WeightInfo) -> int:
        """Return the size of the slot of a weight."""
        if self.shape is None and self.dtype is None:
            return weight.bytes
        shape, dtype = self.shape, self.dtype
        return Tensor("", dtype or weight.dtype, weight.shape if shape is None else shape).bytes or 0


@define
class GraphVariable:
    """A variable of the model in the graph: a weight, or a piece of one."""

    info: WeightInfo
    placement: VariablePlacement
    # One tf.Variable, or one for each clone if the variable is replicated.
    copies: list[Any] = field(factory=list, repr=False)
    slots: dict[str, list[Any]] = field(factory=dict, repr=False)  # the slots of each copy, by their suffixes
    average: Any = field(default=None, repr=False)  # the moving average of copy 0, or None
    mean: Any = field(default=None, repr=False)  # the mean of copies that are trained separately, or None
    # What each clone updates, if each has a part of the slots; the variable itself has none then.
    parts: tuple[VariablePart, ...] = field(default=(), repr=False)
    _beside: dict[Device, Placed] = field(factory=dict, init=False, repr=False, eq=False)
    _beside_copy: dict[int, Placed] = field(factory=dict, init=False, repr=False, eq=False)

    @property
    def weight(self) -> str:
        """The name of the weight that it is, or of which it is a piece."""
        return self.info.weight

    @property
    def name(self) -> str:
        """Its name in every mode."""
        return self.info.name

    @property
    def replicated(self) -> bool:
        """Whether each clone has a copy of its own."""
        return len(self.placement.copies) > 0

    def copy_of(self, clone: int) -> int:
        """Return the number of the copy that a clone reads."""
        return clone if self.replicated else 0

    def device_of(self, copy: int) -> Device:
        """Return the device of a copy."""
        return self.placement.copies[copy] if self.replicated else self.placement.placed.device

    def placed(self, copy: int = 0) -> Placed:
        """Return the place of a copy."""
        return Placed(self.device_of(copy), self.placement.placed.reason)

    def beside(self, copy: int = 0) -> Placed:
        """Return the place of an op that is on the device of a copy because it follows the variable."""
        found = self._beside_copy.get(copy)
        if found is None:
            device = self.device_of(copy)
            known = next(iter(self._beside.values()), None)
            reason = following(self.name, self.placement.placed) if known is None else known.reason
            found = self._beside.setdefault(device, Placed(device, reason))
            self._beside_copy[copy] = found
        return found

    def slot_place(self, copy: int) -> Placed:
        """Return the place of the slots of a copy: with it, unless a rule for slots decides otherwise."""
        slots = self.placement.slots
        return self.beside(copy) if slots.reason.kind == "follows" else slots

    def slots_are_remote(self, copy: int) -> bool:
        """Whether a copy has slots that are on another device."""
        return bool(self.slots) and self.slot_place(copy).device != self.device_of(copy)

    @property
    def kept(self) -> Any:
        """The tf.Variable that checkpoints hold under the variable's name."""
        return self.copies[0] if self.mean is None else self.mean

    @property
    def updated(self) -> Sequence[GraphVariable]:
        """What gradients are summed for and applied to: the variable, or the parts of its clones."""
        return self.parts or (self,)

    @property
    def parts_of_workers(self) -> tuple[VariablePart, ...]:
        """Its parts, if workers with graphs of their own update them."""
        return self.parts if self.placement.of_workers else ()

    @property
    def evaluated(self) -> WeightSource:
        """The tf.Variable that is evaluated and exported: average, mean of the copies, or the weight.

        If the average is in parts, it is that of each part.
        """
        if self.average is not None:
            return WeightSource(self.average, self.slot_place(0))
        return WeightSource(self.kept, self.placed())

    @property
    def evaluates_itself(self) -> bool:
        """Whether what is evaluated is its first copy."""
        return self.evaluated.variable is self.copies[0] and not self.averaged_parts

    @property
    def averaged_parts(self) -> Sequence[GraphVariable]:
        """The parts of its clones, if these have the averages that are evaluated."""
        return [each for each in self.parts if each.average is not None]

    def alone(self, clone: int) -> GraphVariable:
        """Return the variable for the update of one clone: with the clone's own copy as the only one."""
        copy = self.copy_of(clone)
        updates = self.placement.updates
        placement = evolve(
            self.placement,
            placed=self.placed(copy),
            slots=self.slot_place(copy),
            copies=(),
            updates=None if updates is None or _follows(updates) else updates,
        )
        return GraphVariable(
            self.info,
            placement,
            [self.copies[copy]],
            {suffix: [slots[copy]] for suffix, slots in self.slots.items()},
            self.average if copy == 0 else None,
        )

    def source(self, clone: int) -> WeightSource:
        """Return the tf.Variable that a clone reads."""
        copy = self.copy_of(clone)
        return WeightSource(self.copies[copy], self.placed(copy))


@define
class VariablePart(GraphVariable):
    """A part of a replicated variable that one clone updates, with the slots and the average of this part.

    It has no tf.Variable of its own: its elements are those of the copy of the clone.
    """

    whole: GraphVariable = field(kw_only=True, repr=False)
    # The number of the clone, and of its copy; None for a clone of another worker.
    copy: int | None = field(kw_only=True)

    @property
    def shard(self) -> Shard:
        """The part of the variable."""
        assert self.info.shard is not None
        return self.info.shard

    def beside(self, copy: int = 0) -> Placed:
        """Return the place of an op that is on the device of the clone because it follows the variable."""
        del copy
        if self.copy is not None:
            return self.whole.beside(self.copy)
        placed = self.placement.placed
        return Placed(placed.device, following(self.whole.name, placed))

    def of(self, value: tf.Tensor) -> tf.Tensor:
        """Return the elements of the part, from a tensor of the variable's shape."""
        return tf.reshape(value, self.shard.cut_shape)[self.shard.index]


def joined_source(
    pieces: Sequence[GraphVariable], sources: Sequence[WeightSource]
) -> WeightSource | CutSource:
    """Return what reads a weight: from one variable, or from those of its pieces."""
    shards = tuple(each.info.shard for each in pieces if each.info.shard is not None)
    return CutSource(shards, tuple(sources)) if shards else sources[0]


def place_variables(
    weights: Mapping[str, WeightInfo],
    slots: Mapping[str, Sequence[SlotSpec]],
    plan: Plan,
    rulebook: Rulebook,
    by_rows: Collection[str] = frozenset(),
) -> tuple[VariablePlacement, ...]:
    """Decide the place of each weight.

    Args:
        slots: The slots of the trainable weights by the names of the weights.
        by_rows: The names of the weights of which clones get whole rows if each updates a part.
    """
    averaged = plan.update.averaging is not None
    infos = []
    for weight in weights.values():
        of_slots = sum(each.bytes_for(weight) for each in slots.get(weight.name, ()))
        of_average = weight.bytes if averaged and weight.trainable else 0
        infos.append(evolve(weight, slot_bytes=of_slots + of_average))
    between = isinstance(plan, WorkerPlan) and plan.keeps_all
    placements = assign_devices(
        rulebook,
        infos,
        plan.towers,
        by_rows,
        everyone=plan.all_towers if between else (),
        # what a constraint makes of a weight, of which the average moves, no part tells
        uncut={each.name for each in weights.values() if between and each.constraint is not None},
    )
    if plan.update.mode == "local":
        together = zip(placements, weights.values(), strict=True)
        return tuple(each if info.declared == "sum" else _copied(each, plan) for each, info in together)
    return placements


def _copied(placement: VariablePlacement, plan: Plan) -> VariablePlacement:
    """Give every clone a copy of a variable, on the device of a rule, or else on the clone's device."""
    if placement.copies:
        return placement
    if placement.placed.reason.kind == "rule":
        return evolve(placement, copies=(placement.placed.device,) * len(plan.towers))
    copies = tuple(tower.device for tower in plan.towers)
    placed = Placed(copies[0], Reason("variables -> replicated", "default"))
    slots = placement.slots
    return evolve(
        placement,
        placed=placed,
        slots=Placed(copies[0], following(placement.info.name, placed)) if _follows(slots) else slots,
        copies=copies,
    )


def _follows(placed: Placed) -> bool:
    return placed.reason.kind == "follows"


def create_variables(
    weights: Mapping[str, WeightInfo],
    placements: Sequence[VariablePlacement],
    slots: Mapping[str, Sequence[SlotSpec]],
    ledger: Ledger,
    *,
    averaged: bool,
    separate: bool = False,
) -> dict[str, GraphVariable]:
    """Make every variable with its slots, and return them by name."""
    made: dict[str, GraphVariable] = {}
    writer = VariableWriter(ledger)
    for info, placement in zip(weights.values(), placements, strict=True):
        variable = made[info.name] = GraphVariable(info, placement)
        variable.parts = tuple(_parts(variable))
        initial = _Initial(info)
        nodes = None if variable.parts else _first_nodes(info)
        for copy in range(len(placement.copies) or 1):
            first: Initial = info.name if copy else nodes or initial
            name, place = copy_name(info.name, copy), variable.placed(copy)
            variable.copies.append(writer.add(name, info.shape, info.dtype, first, place))
        for each in variable.updated:
            for copy, slot in product(range(len(each.placement.copies) or 1), slots.get(each.name, ())):
                name, place = copy_name(f"{each.name}/{slot.suffix}", copy), each.slot_place(copy)
                shape = each.info.shape if slot.shape is None else slot.shape
                dtype = slot.dtype or info.dtype
                alike = slot.initial == 0.0 and (shape, dtype) == (info.shape, info.dtype)
                added = writer.add(name, shape, dtype, ZerosOf(info.name) if alike else slot.initial, place)
                each.slots.setdefault(slot.suffix, []).append(added)
            if averaged and info.trainable:
                first = partial(initial.part, each) if isinstance(each, VariablePart) else info.name
                name, shape = f"{each.name}/{AVERAGE}", each.info.shape
                each.average = writer.add(name, shape, info.dtype, first, each.slot_place(0))
        if separate and info.declared != "sum":
            name, place = f"{info.name}/{MEAN}", variable.beside()
            variable.mean = writer.add(name, info.shape, info.dtype, info.name, place)
    writer.finish()
    return made


def cut_weights(weights: Mapping[str, WeightInfo], rulebook: Rulebook) -> dict[str, WeightInfo]:
    """Return what there is a variable for: every weight, or the pieces into which the rules cut it."""
    found: dict[str, WeightInfo] = {}
    for info in weights.values():
        shards = pieces_of(rulebook, info.name, info.shape, info.bytes)
        first = FirstValue(info, shards)
        for shard in shards:
            found[shard.name] = info.piece(shard, initializer=first)
        if not shards:
            found[info.name] = info
    return found


def _first_nodes(info: WeightInfo) -> Fragment | None:
    """Return the nodes that make the first value; None if it has to be made in the graph of the variable."""
    if info.shard is None:
        return first_nodes(info)
    whole = info.initializer.info.initializer  # of a piece, this is a `FirstValue`
    return first_nodes(evolve(info, initializer=whole)) if is_plain(whole) else None


@define
class _Initial:
    """Makes the first value of a variable, and keeps it for what begins with a part of it."""

    info: WeightInfo
    value: Any = None

    def __call__(self) -> tf.Tensor:
        info = self.info
        self.value = called(info) if info.shard is None else info.initializer.piece(info.shard.number)
        return self.value

    def part(self, part: VariablePart) -> tf.Tensor:
        """Return a part of the first value, made on the current device."""
        return part.of(self.value)


def part_infos(
    weights: Mapping[str, WeightInfo], placements: Sequence[VariablePlacement]
) -> dict[str, WeightInfo]:
    """Return what is known of the parts that clones update, by their names."""
    return {
        each.shard.name: info.piece(each.shard, constraint=None)
        for info, placement in zip(weights.values(), placements, strict=True)
        for each in placement.parts
    }


def _parts(variable: GraphVariable) -> Iterator[VariablePart]:
    """Yield the parts of a variable that clones update."""
    placement = variable.placement
    for each in placement.parts:
        info = variable.info.piece(each.shard, constraint=None)
        device = each.device
        own, slots = (Placed(device, each.reason) for each in (placement.placed, placement.slots))
        yield VariablePart(info, VariablePlacement(info, own, slots), whole=variable, copy=each.copy)


def checkpoint_copy(name: str, clone: int | str) -> str:
    """Return the name in checkpoints of what one of several clones has by itself."""
    return f"{name}/replica_{clone}"


def copy_name(name: str, copy: int) -> str:
    """Return the name of a copy of a variable or slot; copy 0 has that of the variable itself."""
    return checkpoint_copy(name, copy) if copy else name


def create_variable(
    name: str, initial: Callable[[], tf.Tensor], placed: Placed, ledger: Ledger
) -> StepVariable:
    """Make one variable."""
    writer = VariableWriter(ledger)
    value = writer.called(f"{name}/Initializer", initial, placed)
    made = writer.add(name, value.known_shape or (), value.dtype, value, placed)
    writer.finish()
    return made
