"""A step put together by another plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from attrs import define, evolve, field

from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import place_variables
from compiler.plan import Plan, Tower, VariableInfo, VariablePlacement
from compiler.shards import Shard
from compiler.step.means import mean
from compiler.step.pieces import cut_value, join_pieces
from compiler.step.record import Tensor
from compiler.step.sums import Reduction, reduce_all
from compiler.suggest.steps.origin import Origin
from compiler.suggest.steps.result import Beside, Written
from compiler.suggest.steps.scaled import scaled
from compiler.suggest.steps.weights import homes_of, infos_of, item_bytes, resized
from compiler.suggest.steps.work_writer import WorkWriter, place_on
from compiler.time.work import Arrow, Signature, TimedOp
from compiler.topology import Device


class NotWrittenError(Exception):
    """The step of a plan cannot be written from that of the graph."""


def write_step(origin: Origin, plan: Plan) -> Written:
    """Return the step of another plan of the same model.

    Args:
        origin: The step of the graph.
        plan: The plan. Its devices are those of the graph, and its rules name variables of the graph.

    Raises:
        SpecError: A variable cannot be placed by the rules.
        NotWrittenError: The step cannot be written.
    """
    return _StepWriter(origin, plan).write()


@define
class _StepWriter:
    """Writes the ops of a step in the order of the origin, and then what each waits for.

    Attributes:
        origin: The step of the graph.
        plan: The plan.
        book: Its rules.
        placements: The places of all variables and pieces.
        parts: The pieces of each weight; the weight itself if it is whole.
        writer: Writes the ops.
        at: The number of each op that was taken over, by its number in the origin and its clone.
        copies: Where each op was taken from: its number there, its clone, and the part and copy that it
            updates.
        handles: The ops that hold a part: by weight, part and copy.
        values: What each clone reads of each weight.
        readers: The ops that read each part: by weight, part and copy.
        sums: The summed gradient of each part at each copy, or its new value if it is a statistic, by weight.
        chains: The ops that update each part and copy, by their number in the origin.
        beside: The ops beside each weight.
    """

    origin: Origin
    plan: Plan
    book: Rulebook = field(init=False)
    placements: tuple[VariablePlacement, ...] = field(init=False)
    parts: dict[str, list[VariablePlacement]] = field(factory=dict)
    writer: WorkWriter = field(factory=WorkWriter)
    at: dict[tuple[int, int | None], int] = field(factory=dict)
    copies: list[tuple[int, int, int | None, tuple[str, int, int] | None]] = field(factory=list)
    handles: dict[tuple[str, int, int], list[int]] = field(factory=dict)
    values: dict[tuple[str, int], Tensor] = field(factory=dict)
    readers: dict[tuple[str, int, int], list[int]] = field(factory=dict)
    sums: dict[str, list[list[Tensor]]] = field(factory=dict)
    chains: dict[int, list[int]] = field(factory=dict)
    beside: dict[str, Beside] = field(factory=dict)
    _rules_for_ops: bool = field(init=False)
    _begun: set[tuple[object, ...]] = field(factory=set)
    _devices: dict[tuple[str, int], Device | None] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.book = Rulebook(self.plan.spec.place.rules, self.plan.topology)
        self._rules_for_ops = any(each.selector.role == "ops" for each in self.book.rules)
        infos: list[VariableInfo] = []
        for weight in self.origin.weights.values():
            infos += infos_of(self.book, weight.info)
        self.beside = {name: Beside() for name in self.origin.weights}
        self.placements = place_variables(self.book, infos, self.plan.towers)
        for each in self.placements:
            self.parts.setdefault(each.info.weight, []).append(each)
        for name in self.origin.sparse:
            if len(self.parts[name]) > 1 or self.parts[name][0].copies:
                raise NotWrittenError(f"the gradient of {name} is rows")
        if any(each.parts for each in self.placements):
            raise NotWrittenError("clones have parts of slots")

    def write(self) -> Written:
        """Write the step."""
        last = max((ops[-1] for ops in self.origin.towers.values()), default=-1)
        for number in range(len(self.origin.work.ops)):
            self._write(number)
            if number == last:
                for clone in range(len(self.origin.plan.towers), len(self.plan.towers)):
                    self._more(clone)
        self._connect()
        ops, arrows = self.writer.ops, [each for found in self.writer.arrows for each in found]
        work = evolve(self.origin.work, ops=tuple(ops), arrows=tuple(arrows))
        return Written(self.plan, work, self.placements, self.beside if self._is_plain() else None)

    def _is_plain(self) -> bool:
        """Whether the step has the same ops wherever its variables are: each is summed by one op if whole."""
        update, whole = self.plan.update, all(len(each) == 1 for each in self.parts.values())
        summed = update.aggregate.name == "add_n" and update.pack is None and len(self.plan.towers) > 1
        return whole and summed and not any(each.copies for each in self.placements)

    def _write(self, number: int) -> None:
        """Write what stands for an op of the graph, if that is not written yet."""
        origin = self.origin
        clone = origin.clones[number]
        held = origin.handles[number][0] if number in origin.handles else origin.other_handles.get(number)
        if held is not None:
            self._once(("hold", held), self._hold, held)
        elif number in origin.read:
            assert clone is not None
            if clone < len(self.plan.towers):
                self._once(("read", origin.read[number], clone), self._read, origin.read[number], clone)
        elif number in origin.aggregates or number in origin.updates:
            self._once(("sum",), self._sum)
            if number in origin.updates:
                self._once(("update", origin.updates[number]), self._update, origin.updates[number])
        elif clone is None:
            if not self._of_missing_clone(number):
                self._take(number, None)
        elif clone < len(self.plan.towers):
            self._take(number, clone)

    def _once(self, key: tuple[object, ...], write: Callable[..., None], *about: object) -> None:
        """Write something at its first op."""
        if key not in self._begun:
            self._begun.add(key)
            write(*about)

    # --- clones -------------------------------------------------------------------------------------------

    def _more(self, clone: int) -> None:
        """Write a clone that the graph of the spec does not have, like one that it has."""
        source = self._like(clone)
        for name, clones in self.origin.reads.items():
            if source in clones:
                self._read(name, clone)
        for number in self.origin.towers[source]:
            self._take(number, clone)

    def _like(self, clone: int) -> int:
        """Return the clone of the graph that a clone is written from."""
        known = len(self.origin.plan.towers)
        return clone if clone < known else min(1, known - 1)

    def _take(self, number: int, clone: int | None) -> None:
        """Take over an op; `clone` is the clone that it is for."""
        op, known = self.origin.work.ops[number], self.origin.ops[number]
        if clone is not None:
            old, new = self.origin.plan.towers[self._like(clone)], self.plan.towers[clone]
            if old.batch != new.batch:
                kept = [at for at, each in enumerate(self._inputs(number)) if each.source in self.origin.read]
                whole = sum(self._inputs(number)[at].bytes for at in kept) + self.origin.made_whole(number)
                op = scaled(op, old.batch, new.batch, kept, whole)
            device = self._device(number, op, old, new)
            name = op.name if old.scope == new.scope else _renamed(op.name, old, new)
            if name != op.name:
                op = evolve(op, device=device, clone=None if op.clone is None else clone, name=name)
            elif device != op.device:
                op = op.on(device)
        elif known.follows in self.parts:
            op = op.on(self.parts[known.follows][0].placed.device)
        at = self.writer.add(op)
        if known.follows in self.parts:
            self.beside[known.follows].variable.append(at)
        self.at[number, clone] = at
        self.copies.append((at, number, clone, None))

    def _inputs(self, number: int) -> list[Arrow]:
        """Return the tensors that an op of the graph uses, in their order."""
        return [each for each in self.origin.arrows[number] if each.tensor]

    def _device(self, number: int, op: TimedOp, old: Tower, new: Tower) -> Device:
        """Return the device of an op of a clone."""
        known = self.origin.ops[number]
        if known.follows in self.parts:
            return self.parts[known.follows][0].placed.device
        if known.fixed or op.device not in old.devices:
            return op.device
        if not self._rules_for_ops:
            return new.device
        inner = op.name.removeprefix(f"{old.scope}/") if old.scope else op.name
        key = (inner, new.index)
        if key not in self._devices:
            placed = None
            if inner.partition("/")[0] != "input":
                placed = self.book.op(inner, new, forward_of(inner))
            self._devices[key] = placed.device if placed is not None else None
        return self._devices[key] or new.device

    def _of_missing_clone(self, number: int) -> bool:
        """Whether an op outside of the clones only takes from one that the plan does not have."""
        count = len(self.plan.towers)
        if count >= len(self.origin.plan.towers):
            return False
        made = [self.origin.clones[each.source] for each in self.origin.arrows[number]]
        clones = [each for each in made if each is not None]
        return bool(clones) and min(clones) >= count

    # --- variables ----------------------------------------------------------------------------------------

    def _hold(self, owner: str) -> None:
        """Write the ops that hold a weight and its slots."""
        like = self.origin.held_by(owner)
        for part, placement in enumerate(self.parts[owner]):
            for slot, at in enumerate(like):
                for copy, device in enumerate(homes_of(placement)):
                    place = device if placement.copies or slot == 0 else placement.slots.device
                    number = self.writer.add(_on(self.origin.work.ops[at], place))
                    (self.beside[owner].slots if slot else self.beside[owner].variable).append(number)
                    self.handles.setdefault((owner, part, copy), []).append(number)

    def _read(self, owner: str, clone: int) -> None:
        """Write how a clone reads a weight: as it is, or piece by piece."""
        tower, info = self.plan.towers[clone], self.origin.weights[owner].info
        name = tower.op_name(f"{owner}/read")
        found = []
        whole = len(self.parts[owner]) == 1
        for part, placement in enumerate(self.parts[owner]):
            copy = clone if placement.copies else 0
            read = TimedOp(
                name if whole else f"{name}/shard_{part}",
                _READ,
                homes_of(placement)[copy],
                0,
                0,
                clone=clone,
                scope=owner,
            )
            number = self.writer.add(read)
            self.beside[owner].variable.append(number)
            self.writer.wait(number, self.handles[owner, part, copy][0])
            self.readers.setdefault((owner, part, copy), []).append(number)
            found.append(self.writer.given(number, info.dtype, placement.info.shape))
        value = found[0]
        if len(found) > 1:
            value = self._joined(tower, name, found, [each.info for each in self.parts[owner]])
        self.values[owner, clone] = value

    def _joined(
        self, tower: Tower, name: str, pieces: Sequence[Tensor], infos: Sequence[VariableInfo]
    ) -> Tensor:
        """Write how the pieces that a clone has read become the whole weight."""
        self.writer.step.clone = tower.index
        whole = join_pieces(self.writer.step, name, pieces, _shards(infos), place_on(tower.device))
        self.writer.finish(tower.scope)
        self.writer.step.clone = None
        return whole

    # --- gradients ----------------------------------------------------------------------------------------

    def _sum(self) -> None:
        """Write the sums of all gradients."""
        update, step = self.plan.update, self.writer.step
        if update.aggregate.name == "collective":
            raise NotWrittenError("a forecast does not see what TensorFlow's collectives send")
        count, of = len(self.plan.towers), []
        reductions: list[Reduction] = []
        for owner in self._in_order():
            made = [self._made(owner, clone) for clone in range(count)]
            homes = [place_on(self._home(each)) for each in made]
            pieces = [self._cut(owner, clone, each) for clone, each in enumerate(made)]
            for part, placement in enumerate(self.parts[owner]):
                places = [
                    place_on(each) for each in placement.copies or (self.book.updates(placement).device,)
                ]
                values = [each[part] for each in pieces]
                name, number = placement.info.name, len(reductions)
                reductions.append(Reduction(name, values, homes, places, step, number))
                of.append(owner)
        totals = reduce_all(reductions, update)
        self.writer.finish()
        for owner, total in zip(of, totals, strict=True):
            found = [each for each in total if isinstance(each, Tensor)]
            self.sums.setdefault(owner, []).append(found)
            self.beside[owner].sums += map(self.writer.number, found)

    def _home(self, made: Tensor) -> Device:
        """Return the device on which a tensor is made."""
        return self.writer.ops[self.writer.number(made)].device

    def _cut(self, owner: str, clone: int, made: Tensor) -> Sequence[Tensor]:
        """Write the pieces of what a clone has made for a weight; one that is whole has only one."""
        parts = self.parts[owner]
        if len(parts) == 1:
            return [made]
        scope = f"aggregate/{owner}/clone_{clone}"
        shards = _shards([each.info for each in parts])
        return cut_value(self.writer.step, scope, made, shards, place_on(self._home(made)))

    def _in_order(self) -> list[str]:
        """Return the weights with gradients in the order in which the first clone makes these."""
        found = self.origin.gradients
        return sorted(found, key=lambda each: found[each][0].op)

    def _made(self, owner: str, clone: int) -> Tensor:
        info = self.origin.weights[owner].info
        made = self.origin.made_for(owner).get(self._like(clone))
        if made is None or (made.op, clone) not in self.at:
            raise NotWrittenError(f"what clone {clone} has for {owner}")
        output = int(made.tensor.partition(":")[2])
        return self.writer.given(self.at[made.op, clone], info.dtype, info.shape, output)

    # --- updates ------------------------------------------------------------------------------------------

    def _update(self, owner: str) -> None:
        """Write the ops that update a weight: for each part at each copy."""
        weight = self.origin.weights[owner]
        old = self._first_shape(owner)
        if not weight.info.trainable:
            self._statistic(owner)
        chain, first_home = self.origin.chains.get(owner, ()), self._first_home(owner)
        of_shape: dict[tuple[int, ...], list[TimedOp]] = {}
        for part, placement in enumerate(self.parts[owner]):
            shape = placement.info.shape
            if shape not in of_shape:
                of_shape[shape] = [
                    resized(self.origin.work.ops[number], weight.info, old, shape) for number in chain
                ]
            for copy, device in enumerate(homes_of(placement)):
                for number, op in zip(chain, of_shape[shape], strict=True):
                    moves = op.device == first_home
                    at = self.writer.add(_on(op, device) if moves else op)
                    if moves:
                        self.beside[owner].variable.append(at)
                    self.chains.setdefault(number, []).append(at)
                    self.copies.append((at, number, None, (owner, part, copy)))

    def _statistic(self, owner: str) -> None:
        """Write how a statistic gets its new value from those of clones."""
        if owner not in self.origin.statistics:
            return
        info = self.origin.weights[owner].info
        means = self.plan.update.batch_norm == "mean" and "float" in info.dtype
        clones = range(len(self.plan.towers) if means else 1)
        shares = {each: self.plan.share(self.plan.towers[each]) for each in clones}
        found = {clone: self._cut(owner, clone, self._made(owner, clone)) for clone in clones}
        for part, placement in enumerate(self.parts[owner]):
            self.writer.finish()
            homes, before = homes_of(placement), len(self.writer.ops)
            own = {clone: each[part] for clone, each in found.items()}
            value = mean(self.writer.step, placement.info.name, own, shares, place_on(homes[0]))
            self.writer.finish()
            self.beside[owner].variable += range(before, len(self.writer.ops))
            self.sums.setdefault(owner, []).append([value] * len(homes))

    def _first_home(self, owner: str) -> Device:
        return self.origin.work.ops[self.origin.held_by(owner)[0]].device

    def _first_shape(self, owner: str) -> tuple[int, ...]:
        """Return the shape of the first part of a weight in the graph."""
        weight = self.origin.weights[owner]
        if weight.first == owner:
            return weight.info.shape
        book = Rulebook(self.origin.plan.spec.place.rules, self.origin.plan.topology)
        return infos_of(book, weight.info)[0].shape

    # --- what waits for what ------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Write what the ops that were taken over wait for."""
        for at, number, clone, part in self.copies:
            waits = self.writer.arrows[at]
            before: set[int] = set()
            for arrow in self.origin.arrows[number]:
                for source, tensor, size in self._sources(arrow, clone, part):
                    if tensor:
                        waits.append(Arrow(source, at, tensor, size))
                    elif source not in before:
                        before.add(source)
                        waits.append(Arrow(source, at))

    def _sources(  # noqa: PLR0911 one for each kind of source
        self, arrow: Arrow, clone: int | None, part: tuple[str, int, int] | None
    ) -> Sequence[tuple[int, str, int]]:
        """Return what stands for the source of an arrow.

        Args:
            arrow: The arrow in the origin.
            clone: The clone for which its target was taken over, or None.
            part: The part and copy of a weight that its target updates, or None.
        """
        origin, source = self.origin, arrow.source
        if source in origin.handles:
            owner, slot = origin.handles[source]
            key = part if part is not None and part[0] == owner else (owner, 0, 0)
            return [(self.handles[key][slot], arrow.tensor, 0)]
        if source in origin.read:
            return self._read_sources(arrow, clone, part)
        if source in origin.updates:
            return self._updated(arrow, part)
        made = origin.clones[source]
        if source in origin.aggregates:
            return self._summed(origin.sums.get(source), part)
        if part is not None and made is not None and self._is_summed(part[0], made, arrow):
            return self._summed(part[0], part)
        if made is not None:
            return self._of_clone(arrow, clone, made)
        found = self.at.get((source, None))
        return [] if found is None else [(found, arrow.tensor, arrow.bytes)]

    def _of_clone(self, arrow: Arrow, clone: int | None, made: int) -> Sequence[tuple[int, str, int]]:
        """Return what stands for an op of a clone."""
        own = clone is not None and made == self._like(clone)
        found = self.at.get((arrow.source, clone if own else made))
        if found is None:
            return []
        size = arrow.bytes
        old, new = (
            self.origin.plan.towers[made],
            self.plan.towers[clone if own and clone is not None else made],
        )
        if old.batch != new.batch and size > _SMALL:
            size = size * new.batch // old.batch
        return [(found, arrow.tensor, size)]

    def _read_sources(
        self, arrow: Arrow, clone: int | None, part: tuple[str, int, int] | None
    ) -> Sequence[tuple[int, str, int]]:
        owner = self.origin.read[arrow.source]
        if part is not None and part[0] == owner:
            return [(each, "", 0) for each in self.readers.get(part, ())]
        reader = clone if clone is not None else self.origin.work.ops[arrow.source].clone
        value = self.values.get((owner, reader if reader is not None else 0))
        if value is None:
            return []
        return [self._used(value)] if arrow.tensor else [(self.writer.number(value), "", 0)]

    def _summed(self, owner: str | None, part: tuple[str, int, int] | None) -> Sequence[tuple[int, str, int]]:
        if owner is None or owner not in self.sums:
            return []
        if part is not None and part[0] == owner:
            return [self._used(self.sums[owner][part[1]][part[2]])]
        return [self._used(each[0]) for each in self.sums[owner]]

    def _used(self, value: Tensor) -> tuple[int, str, int]:
        """Return the number of the op that makes a tensor, its name and its bytes."""
        return self.writer.number(value), value.name, value.bytes or 0

    def _updated(self, arrow: Arrow, part: tuple[str, int, int] | None) -> Sequence[tuple[int, str, int]]:
        """Return what stands for an op of an update: that of the same part, or those of all."""
        written = self.chains.get(arrow.source, [])
        owner = self.origin.updates[arrow.source]
        if part is None or part[0] != owner or not written:
            return [(each, "", 0) for each in written]
        placements, info = self.parts[owner], self.origin.weights[owner].info
        size = arrow.bytes
        if size == prod(self._first_shape(owner)) * item_bytes(info):
            size = placements[part[1]].info.bytes
        return [(written[part[1] * len(homes_of(placements[0])) + part[2]], arrow.tensor, size)]

    def _is_summed(self, owner: str, clone: int, arrow: Arrow) -> bool:
        made = self.origin.made_for(owner).get(clone)
        return made is not None and (made.op, made.tensor) == (arrow.source, arrow.tensor)


_READ = Signature("ReadVariableOp", ("resource[]",))
_SMALL = 64
"""The bytes up to which a tensor is taken to be a number or a shape, which does not grow with the batch."""


def forward_of(inner: str) -> str | None:
    """Return the op that a gradient op differentiates, as TensorFlow's names say it; None for other ops."""
    head, _, rest = inner.partition("/")
    if head != "gradients" or "_grad/" not in rest:
        return None
    return rest.partition("_grad/")[0]


def _shards(infos: Sequence[VariableInfo]) -> list[Shard]:
    """Return the pieces of a weight that is not whole."""
    return [each.shard for each in infos if each.shard is not None]


def _on(op: TimedOp, device: Device) -> TimedOp:
    """Return an op on a device."""
    return op if op.device is device else op.on(device)


def _renamed(name: str, old: Tower, new: Tower) -> str:
    inner = name.removeprefix(f"{old.scope}/") if old.scope else name
    return new.op_name(inner)
