"""The places of variables, their slots and updates, which are decided together because they share devices."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from math import prod

from attrs import define, evolve, field

from compiler.figures import gathered, plural, size
from compiler.placement.rules import Rulebook, following
from compiler.plan import OwnedPart, Tower, VariableInfo, VariablePlacement
from compiler.reasons import Placed, Reason
from compiler.shards import Shard, cut, parts_for
from compiler.topology import Device, Topology
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import plan as errors
from dsl.ir.place import PARAMETER_SERVER

MOST_SHOWN = 5
"""The most variables that are named if the same is wrong with several."""


def place_variables(
    book: Rulebook,
    infos: Sequence[VariableInfo],
    towers: Sequence[Tower],
    by_rows: Collection[str] = frozenset(),
    *,
    everyone: Sequence[Tower] = (),
    uncut: Collection[str] = frozenset(),
) -> tuple[VariablePlacement, ...]:
    """Place every variable.

    If a rule for slots or updates has a set of devices, the trainable variables take these in turn.

    Args:
        infos: The variables in the order of their creation.
        towers: The towers, whose devices hold the copies of replicated variables.
        by_rows: The names of the variables of which clones get whole rows if each updates a part.
        everyone: The towers of all workers, if each has a graph of its own and copies of all variables.
        uncut: The names of the variables of which no clone has a part of the slots.

    Returns:
        A placement for each variable, in the order of `infos`.

    Raises:
        SpecError: Slots are to be cut over the clones, and their variable is not replicated.
    """
    slots, updates = _deal(book, "slots", infos), _deal(book, "updates", infos)
    over_clones = [None if info.name in uncut else _over_clones(book, info) for info in infos]
    weights = [
        info.bytes + (info.slot_bytes if remote is None and divided is None else 0)
        for info, remote, divided in zip(infos, slots, over_clones, strict=True)
    ]
    homes = _Homes(book, infos, weights, towers)
    for info, remote, divided in zip(infos, slots, over_clones, strict=True):
        if remote is not None:
            homes.carry(remote.device, info.slot_bytes)
        elif divided is not None:
            for tower in towers:
                homes.carry(tower.device, info.slot_bytes // len(towers))
    placements = tuple(
        VariablePlacement(
            info,
            placed,
            remote or Placed(placed.device, divided or following(info.name, placed)),
            copies,
            update or Placed(placed.device, following(info.name, placed)),
            _fewer(book, info, placed.reason),
        )
        for info, remote, divided, update, (placed, copies) in zip(
            infos, slots, over_clones, updates, homes.place(), strict=True
        )
    )
    return _with_parts(placements, over_clones, towers, everyone or towers, by_rows)


def _over_clones(book: Rulebook, info: VariableInfo) -> Reason | None:
    """Return the rule that cuts the slots of a variable over the clones, or None if there is none."""
    reason = book.decide("slots", info.weight) if info.trainable else None
    return reason if reason is not None and isinstance(reason.target, ir.OverClones) else None


def _with_parts(
    placements: Sequence[VariablePlacement],
    over_clones: Sequence[Reason | None],
    towers: Sequence[Tower],
    everyone: Sequence[Tower],
    by_rows: Collection[str],
) -> tuple[VariablePlacement, ...]:
    """Give each clone a part of the variables whose slots are cut; a single clone has them whole."""
    alone = [
        errors.slots_without_copies(reason.target.span, name=each.info.weight, rule=each.placed.reason.span)
        for each, reason in zip(placements, over_clones, strict=True)
        if reason is not None and reason.target is not None and not each.copies
    ]
    if alone:
        raise SpecError(alone[:MOST_SHOWN])
    found, load = [], [0] * len(everyone)
    own = {tower.number: copy for copy, tower in enumerate(towers)}
    for each, reason in zip(placements, over_clones, strict=True):
        parts: tuple[OwnedPart, ...] = ()
        if reason is not None and len(everyone) > 1:
            rows = each.info.name in by_rows
            dealt = parts_for(each.info.name, each.info.shape, load, by_rows=rows)
            index = towers[0].devices.index(each.copies[0])
            parts = tuple(
                OwnedPart(shard, own.get(everyone[at].number), everyone[at].devices[index])
                for at, shard in dealt
            )
            for at, shard in dealt:
                held = each.info.slot_bytes or each.info.bytes
                load[at] += prod(shard.shape) * held // prod(each.info.shape)
        apart = bool(parts) and len(everyone) > len(towers)
        found.append(evolve(each, parts=parts, of_workers=apart))
    return tuple(found)


def homes_of(book: Rulebook, names: Sequence[str], towers: Sequence[Tower]) -> tuple[Device, ...]:
    """Return all devices over which the rules spread variables, whether these are used or not."""
    default, otherwise = _default(book)
    rules = dict.fromkeys((book.decide("variables", name) or default).rule for name in names)
    homes: dict[Device, None] = {}
    for rule in rules:
        target = otherwise if rule is None else rule.target
        index = target.index if isinstance(target, ir.GroupMember) else 0
        copied = isinstance(target, ir.Replicated | ir.GroupMember)
        found = [tower.devices[index] for tower in towers] if copied else book.devices(target)
        homes.update(dict.fromkeys(found))
    return tuple(homes)


def _deal(book: Rulebook, role: str, infos: Sequence[VariableInfo]) -> list[Placed | None]:
    """Return the place that the rules of one role give to each variable.

    It is None if no rule matches, and if each clone has a part.
    """
    turns: dict[ir.Rule | None, count[int]] = {}
    dealt: list[Placed | None] = []
    for info in infos:
        reason = book.decide(role, info.weight) if info.trainable else None
        if reason is None or isinstance(reason.target, ir.OverClones):
            dealt.append(None)
            continue
        devices = book.devices(reason.target)
        turn = next(turns.setdefault(reason.rule, count()))
        dealt.append(Placed(devices[turn % len(devices)], reason))
    return dealt


@define
class _Homes:
    """The variables' own devices; `weights` are the bytes that each variable adds to its device."""

    book: Rulebook
    infos: Sequence[VariableInfo]
    weights: Sequence[int]
    towers: Sequence[Tower]
    load: dict[Device, int] = field(factory=dict)

    def carry(self, device: Device, weight: int) -> None:
        """Note that a device holds `weight` more bytes."""
        self.load[device] = self.load.get(device, 0) + weight

    def place(self) -> list[tuple[Placed, tuple[Device, ...]]]:
        """Return the place of each variable and the devices of its copies.

        Variables with a fixed device come first, because their bytes count when the others are balanced.
        """
        default, otherwise = _default(self.book)
        decided = [self.book.decide("variables", info.weight) or default for info in self.infos]
        placed: dict[int, tuple[Placed, tuple[Device, ...]]] = {}
        for rule in sorted(dict.fromkeys(reason.rule for reason in decided), key=_is_balanced):
            target = otherwise if rule is None else rule.target
            members = [at for at, reason in enumerate(decided) if reason.rule == rule]
            for at, devices in zip(members, self._spread(target, members), strict=True):
                for device in devices:
                    self.carry(device, self.weights[at])
                copied = isinstance(target, ir.Replicated | ir.GroupMember)
                placed[at] = (Placed(devices[0], decided[at]), devices if copied else ())
        return [placed[at] for at in range(len(self.infos))]

    def _spread(self, target: ir.Target, members: Sequence[int]) -> list[tuple[Device, ...]]:
        """Return the device of each variable, or those of its copies: one on a device of every clone."""
        if isinstance(target, ir.Replicated | ir.GroupMember):
            index = target.index if isinstance(target, ir.GroupMember) else 0
            return [tuple(tower.devices[index] for tower in self.towers) for _ in members]
        devices = self.book.devices(target)
        if isinstance(target, ir.Sharded):
            return self._one_each(tuple(dict.fromkeys(devices)), members)
        if isinstance(target, ir.Balanced):
            names = [self.infos[at].name for at in members]
            spread = spread_by_bytes(names, [self.weights[at] for at in members], devices, self.load)
            return [(each,) for each in spread]
        return [(devices[turn % len(devices)],) for turn in range(len(members))]

    def _one_each(self, devices: Sequence[Device], members: Sequence[int]) -> list[tuple[Device, ...]]:
        """Return a device for each piece; those of one variable are on different devices.

        A variable with a piece for each device has them in the order of the devices. The pieces of other
        variables go to the devices with the fewest bytes.
        """
        found: dict[int, tuple[Device, ...]] = {}
        load = {device: self.load.get(device, 0) for device in devices}
        families = gathered((self.infos[at].weight, at) for at in members)
        for family in sorted(families.values(), key=len, reverse=True):
            free = list(devices) if len(family) == len(devices) else sorted(devices, key=load.__getitem__)
            for at, device in zip(family, free, strict=False):
                found[at] = (device,)
                load[device] += self.weights[at]
        return [found[at] for at in members]


def pieces_of(book: Rulebook, name: str, shape: Sequence[int], bytes_: int) -> tuple[Shard, ...]:
    """Return the pieces into which the rules cut a variable; nothing if it stays whole.

    Raises:
        SpecError: The variable lacks the axis along which its rule cuts.
    """
    reason = book.decide("variables", name)
    target = None if reason is None else reason.target
    if not isinstance(target, ir.Sharded):
        return ()
    if target.axis and target.axis >= len(shape):
        span = target.span_of("axis") or target.span
        raise SpecError([errors.no_such_axis(name, shape, target.axis, span)])
    count = len(dict.fromkeys(book.devices(target)))
    return cut(name, shape, bytes_, count, axis=target.axis, least=target.min_size)


def _fewer(book: Rulebook, info: VariableInfo, reason: Reason) -> str | None:
    """Return why a variable has fewer pieces than its rule has devices, or None if it has not."""
    target = reason.target
    if not isinstance(target, ir.Sharded):
        return None
    devices, shape = len(dict.fromkeys(book.devices(target))), info.shape
    pieces, rows = 1, shape[target.axis] if shape else 1
    if info.shard is not None:
        pieces, rows = info.shard.count, info.shard.whole[target.axis]
    if pieces == devices:
        return None
    least = f"a piece has at least {size(target.min_size)}"
    told = f"it has {plural(rows, 'row')}" if pieces == rows else least
    return f"{plural(pieces, 'piece')} for {plural(devices, 'device')}, because {told}"


def _default(book: Rulebook) -> tuple[Reason, ir.Target]:
    """Return the default for all variables, in words and as a target."""
    text, target = _default_target(book.topology)
    return Reason(f"variables -> {text}", "default"), target


def _default_target(topology: Topology) -> tuple[str, ir.Target]:
    if topology.alone:
        return "replicated", ir.Replicated()
    if topology.parameter_servers:
        servers = ir.DeviceSet((ir.DevicePattern("cpu", (0,), PARAMETER_SERVER),))
        return "round_robin(ps[*])", ir.RoundRobin(servers)
    cpu = topology.keeper
    return cpu.ref, ir.DeviceSet((ir.DevicePattern("cpu", (cpu.index,), cpu.job, (cpu.task,)),))


def _is_balanced(rule: ir.Rule | None) -> bool:
    return rule is not None and isinstance(rule.target, ir.Balanced)


# --- variables spread over devices, so that the fullest has as few bytes as possible ----------------------
#
# Longest processing time first (Graham, Bounds on multiprocessing timing anomalies, 1969): the largest
# variable goes to the least loaded device, which is at most 4/3 of the best split. Then variables of the
# fullest device are exchanged with others as long as that helps. The result does not depend on the order in
# which variables were created.


ROUNDS_PER_VARIABLE = 4  # further exchanges have never been found to help


def spread_by_bytes(
    names: Sequence[str], weights: Sequence[int], devices: Sequence[Device], load: Mapping[Device, int]
) -> list[Device]:
    """Return a device for each variable; `load` has the bytes that devices hold already."""
    shelves = [_Shelf(device, load.get(device, 0)) for device in dict.fromkeys(devices)]
    order = sorted(range(len(names)), key=lambda at: (-weights[at], names[at]))
    for at in order:
        min(shelves, key=lambda each: each.load).put((weights[at], names[at], at))
    for _ in range(ROUNDS_PER_VARIABLE * len(names)):
        if not _relieve(max(shelves, key=lambda each: each.load), shelves):
            break
    chosen = {at: shelf.device for shelf in shelves for _, _, at in shelf.items}
    return [chosen[at] for at in range(len(names))]


_Item = tuple[int, str, int]  # weight, name, place in the order of creation
_NOTHING: _Item = (0, "", -1)


@define
class _Shelf:
    """A device and what is on it."""

    device: Device
    load: int
    items: tuple[_Item, ...] = ()

    def put(self, item: _Item) -> None:
        if item is not _NOTHING:
            self.items = tuple(sorted((*self.items, item)))
            self.load += item[0]

    def take(self, item: _Item) -> None:
        if item is not _NOTHING:
            self.items = tuple(each for each in self.items if each is not item)
            self.load -= item[0]


def _relieve(full: _Shelf, shelves: Sequence[_Shelf]) -> bool:
    """Move one item off the fullest shelf, or exchange it for a lighter one, if that lowers the peak."""
    best: tuple[int, _Shelf, _Item, _Item] | None = None
    for other in shelves:
        if other is full:
            continue
        for mine, theirs in _exchanges(full, other):
            difference = mine[0] - theirs[0]
            peak = max(full.load - difference, other.load + difference)
            if peak < (full.load if best is None else best[0]):
                best = (peak, other, mine, theirs)
    if best is None:
        return False
    _, other, mine, theirs = best
    full.take(mine)
    other.take(theirs)
    full.put(theirs)
    other.put(mine)
    return True


def _exchanges(full: _Shelf, other: _Shelf) -> list[tuple[_Item, _Item]]:
    """Return for each item of `full` those of `other` whose exchange brings the two loads nearest."""
    half = (full.load - other.load) // 2
    theirs = (_NOTHING, *other.items)
    lengths = [each[0] for each in theirs]
    pairs = []
    for mine in full.items:
        at = bisect_left(lengths, mine[0] - half)
        pairs += [(mine, theirs[near]) for near in (at - 1, at) if 0 <= near < len(theirs)]
    return pairs
