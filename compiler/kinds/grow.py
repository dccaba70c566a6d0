"""The placement map of many clones by kinds, from the map of a few.

The few are clones 0 and 1 on tasks 0 and 1. A record of one of them stands for those of all clones that are
alike: its names become templates, which have places for the numbers of tasks and clones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import gcd

from attrs import define, evolve, field

from compiler.kinds.grid import MapGrid, NotAlikeError, Spot
from compiler.kinds.kind_map import KindMap, Kinds
from compiler.kinds.kinds import (
    CloneKind,
    CopyKind,
    DeviceKind,
    MapKind,
    OpKind,
    SlotKind,
    TransferKind,
    VariableKind,
)
from compiler.kinds.layout import FEW
from compiler.kinds.patterns import Pattern, Patterns
from compiler.kinds.templates import ORDINAL, Numbers, escaped
from compiler.kinds.tensors import largest_of, named, orbits_of
from compiler.kinds.workers import Workers, at_first, first_worker
from compiler.mapping.records import (
    MapClone,
    MapOp,
    MapTransfer,
    MapVariable,
    PlacementMap,
    RuleRef,
)
from compiler.plan import Plan
from compiler.topology import LOCAL_JOB


def kinds_of(
    few: PlacementMap,
    patterns: Patterns,
    grid: MapGrid,
    plan: Plan,
    tasks: Patterns | None = None,
    workers: Workers | None = None,
) -> KindMap:
    """Return the map of a deployment with many clones, without a forecast of the memory of a step.

    Args:
        few: The map of a few of its clones, with all tensors of each transfer; if each worker has a graph of
            its own, with the transfers of the first alone.
        patterns: The names in that map.
        grid: The grid of all clones.
        plan: The plan of all clones.
        tasks: The names with places for the numbers of tasks alone, if the clones on a task are not alike in
            what they sum and send. The few are then all clones of a few tasks.
        workers: What is known of workers that have graphs of their own, if they have.

    Raises:
        NotAlikeError: The many do not follow from the few.
    """
    return _Growing(few, patterns, grid, plan, tasks, workers).map()


@define
class _Growing:
    few: PlacementMap
    patterns: Patterns
    grid: MapGrid
    plan: Plan
    tasks: Patterns | None
    workers: Workers | None
    spots: list[Spot] = field(init=False)
    rules: dict[tuple[int, Spot], RuleRef] = field(factory=dict)
    texts: dict[tuple[int, Spot], str] = field(factory=dict)
    others: list[bool] = field(factory=list)  # by kind of ops: whether other workers have them too

    def __attrs_post_init__(self) -> None:
        hosts, groups = (None, *_firsts(self.grid.hosts)), (None, *_firsts(self.grid.groups))
        self.spots = [
            Spot(host, group) for host in hosts for group in groups if host is not None or group is None
        ]

    def map(self) -> KindMap:
        few, grid = self.few, self.grid
        ops = tuple(self._ops())
        # Of the clones of a task, the second stands for those that follow.
        own = (each for each in few.clones if (self.patterns.grid.spot(each.index).group or 0) < FEW)
        found = KindMap(
            few.spec,
            few.tensorflow,
            evolve(few.mode, clones=grid.clones),
            grid,
            tuple(MapKind.of(each, grid) for each in self.spots),
            (),
            tuple(map(self._clone, own)),
            tuple(map(self._variable, few.variables)),
            ops,
            tuple(self._transfers()),
            few.assumptions,
            listed=None if self.workers is None else f"{grid.job}:0",
        )
        return evolve(found, device_kinds=tuple(self._devices(found)))

    def _of(self, spot: Spot) -> int:
        try:
            return self.spots.index(spot)
        except ValueError:
            raise NotAlikeError("something is of a clone, but of no task") from None

    def _text(self, text: str, spot: Spot) -> str:
        """Return a name of a thing that has a place, as a template."""
        return self._template(pattern_for(text, spot, self.patterns, self.tasks), spot)

    @property
    def _sending(self) -> Patterns:
        """The names of devices and of what they send."""
        return self.patterns if self.tasks is None else self.tasks

    def _template(self, pattern: Pattern, spot: Spot) -> str:
        key = (id(pattern), spot)  # the patterns are kept, and so are their identities
        found = self.texts.get(key)
        if found is None:
            found = self.texts[key] = pattern.template(self.grid, spot).text()
        return found

    # --- ops ----------------------------------------------------------------------------------------------

    def _ops(self) -> Iterator[OpKind]:
        for op in self.few.ops:
            kind = self._op(op)
            if kind is not None:
                self.others.append(self.workers is not None and op.name not in self.workers.of_chief)
                yield kind

    def _op(self, op: MapOp) -> OpKind | None:
        """Return the kind of an op, or None if the same op of the second clone of a task stands for it."""
        name, spot = of_op(op.name, op.clone, self.patterns)
        clone = None if op.clone is None else self.grid.number(spot.host or 0, spot.group or 0)
        if self.tasks is not None and (spot.group or 0) > 1:
            return None
        try:
            device = self._text(op.requested, spot)
        except NotAlikeError as fault:
            raise NotAlikeError(f"{op.name} is on {op.requested}, and {fault}") from fault
        like = MapOp(
            self._template(name, spot), op.type, clone, op.role, device, None, self._rule(op.rule, spot)
        )
        return OpKind(self._of(spot), like)

    def _rule(self, rule: RuleRef, spot: Spot) -> RuleRef:
        """Return the reason of a thing; a rule names no task or clone, but a default and a name may."""
        key = (id(rule), spot)
        found = self.rules.get(key)
        if found is None:
            text = escaped(rule.text) if rule.reason == "rule" else self._text(rule.text, spot)
            decided = rule.decided_by
            if decided is not None:
                decided = escaped(decided) if rule.file is not None else self._text(decided, spot)
            found = self.rules[key] = evolve(rule, text=text, decided_by=decided)
        return found

    # --- variables and clones -----------------------------------------------------------------------------

    def _variable(self, variable: MapVariable) -> VariableKind:
        slots = []
        for each in variable.slots:
            spot = self.patterns.of(each.name).spot
            name, device = self._text(each.name, spot), self._text(each.device, spot)
            whole = each.shard
            shard = None if whole is None else evolve(whole, of=self._text(whole.of, spot))
            slots.append(SlotKind(self._of(spot), evolve(each, name=name, device=device, shard=shard)))
        copies = tuple(self._copies(variable.copies))
        return VariableKind(evolve(variable, copies=(), slots=()), copies, tuple(slots))

    def _copies(self, copies: Sequence[str]) -> Iterator[CopyKind]:
        """Yield the devices of the copies of a variable, one for each clone."""
        if not copies:
            return
        of = self.patterns.grid
        if len(copies) != of.clones:
            raise NotAlikeError("there are not as many copies as clones")
        for clone, ref in enumerate(copies):
            yield CopyKind(self._of(of.spot(clone)), self._text(ref, of.spot(clone)))

    def _clone(self, clone: MapClone) -> CloneKind:
        spot = self.patterns.grid.spot(clone.index)
        devices = tuple(self._text(each, spot) for each in clone.devices)
        index = self.grid.number(spot.host or 0, spot.group or 0)
        return CloneKind(self._of(spot), MapClone(index, self._text(clone.scope, spot), devices, clone.batch))

    # --- devices ------------------------------------------------------------------------------------------

    def _devices(self, found: KindMap) -> Iterator[DeviceKind]:
        kinds = Kinds(found)
        numbers = _on_devices(kinds, ((each.like.requested, each.of, 1) for each in found.op_kinds))
        variables = [(each, each.like.bytes) for each in found.variable_kinds]
        copies = _on_devices(
            kinds, ((one.device, one.of, size) for each, size in variables for one in each.copies)
        )
        slots = _on_devices(
            kinds, ((one.like.device, one.of, one.like.bytes) for each, _ in variables for one in each.slots)
        )
        few = _copies_and_slots(self.few.variables)
        others = self._of_other_workers(found)
        for device in self.few.devices:
            pattern = self._sending.of(device.ref)
            spot = pattern.spot
            ref, of = self._template(pattern, spot), self._of(spot)
            twins = of if self.workers is None else self._of(first_worker(spot))
            alike = {
                (numbers[each] + others[each], copies[each], slots[each])
                for each in kinds.devices(ref, twins)
            }
            if len(alike) > 1:
                raise NotAlikeError(f"{ref} has more ops of some clones than of others")
            ((ops, of_copies, of_slots),) = alike
            like = evolve(
                device,
                ref=ref,
                device=tensorflow_name(ref, emulate=self.plan.emulate),
                ops=ops,
                variable_bytes=device.variable_bytes + of_copies - few[0][device.ref],
                slot_bytes=device.slot_bytes + of_slots - few[1][device.ref],
                other_bytes=device.other_bytes + self._held_for_others(device.ref, spot),
            )
            yield DeviceKind(of, like)

    def _held_for_others(self, ref: str, spot: Spot) -> int:
        """Return the bytes that a device holds for workers that the few do not have."""
        if self.workers is None:
            return 0
        few = Numbers(self.patterns.grid)
        like = self._sending.of(ref).at(few, spot, 0, 0)
        return self.workers.held.get(like, 0) * (self.grid.hosts - self.patterns.grid.hosts)

    def _of_other_workers(self, found: KindMap) -> Counter[str]:
        """Count the ops that other workers have on devices that are not their own, if there are any."""
        counts: Counter[str] = Counter()
        if self.workers is None:
            return counts
        own = (self.grid.job, 0)
        hosts = {each.ref: each.host for each in self.plan.topology.devices}
        kinds = Kinds(found)
        for there, kind in zip(self.others, found.op_kinds, strict=True):
            if there:
                devices = kinds.devices(kind.like.requested, kind.of)
                for ref in devices:
                    if hosts[ref] != own:
                        share = found.kinds[kind.of].count // len(devices)
                        counts[ref] += share * (self.grid.hosts - 1)
        return counts

    # --- transfers ----------------------------------------------------------------------------------------

    def _transfers(self) -> Iterator[TransferKind]:
        found = [self._transfer(each) for each in self.few.transfers]
        if self.workers is None:
            yield from found
            return
        others, moved = self.grid.hosts - 1, []
        ends = [(each.of, each.like.from_device, each.like.to_device) for each in found]
        for each in map(self._transfer, self.workers.sent):
            spot = self.spots[each.of]
            if spot.host is None:  # between two servers: all workers send over this link
                at = ends.index((each.of, each.like.from_device, each.like.to_device))
                found[at] = evolve(found[at], like=found[at].like.plus(each.like, others))
            else:
                largest = tuple(evolve(one, name=at_first(one.name)) for one in each.like.largest)
                moved.append(TransferKind(self._of(Spot(1, spot.group)), evolve(each.like, largest=largest)))
        yield from (*found, *moved)

    def _transfer(self, link: MapTransfer) -> TransferKind:
        ends = [self._sending.of(each) for each in (link.from_device, link.to_device)]
        spot = joined((each.spot for each in ends), f"{link.from_device} to {link.to_device}")
        orbits = orbits_of(link.largest, spot, self._sending)
        if any(each.missing for each in orbits):
            raise NotAlikeError(f"{link.from_device} sends something of only some clones")
        like = MapTransfer(
            self._template(ends[0], spot),
            self._template(ends[1], spot),
            sum(each.count(self.grid) for each in orbits) + link.bytes_unknown,
            sum(each.bytes * each.count(self.grid) for each in orbits),
            link.bytes_unknown,
            named(largest_of(orbits, self.grid), self.grid),
        )
        return TransferKind(self._of(spot), like)


def _on_devices(kinds: Kinds, things: Iterable[tuple[str, int, int]]) -> Counter[str]:
    """Add up what is on each device."""
    sums: Counter[tuple[str, int]] = Counter()
    for text, of, each in things:
        sums[text, of] += each
    found: Counter[str] = Counter()
    for (text, of), added in sums.items():
        devices = kinds.devices(text, of)
        share, rest = divmod(added * kinds.placement.kinds[of].count, len(devices))
        if rest:
            raise NotAlikeError(f"{text} has ops of only some clones")
        for ref in devices:
            found[ref] += share
    return found


def _copies_and_slots(variables: Iterable[MapVariable]) -> tuple[Counter[str], Counter[str]]:
    """Return the bytes of copies of variables, and those of slots, by the names of their devices."""
    copies: Counter[str] = Counter()
    slots: Counter[str] = Counter()
    for variable in variables:
        for ref in variable.copies:
            copies[ref] += variable.bytes
        for slot in variable.slots:
            slots[slot.device] += slot.bytes
    return copies, slots


_DEVICE = re.compile(r"(?:(?P<job>\w+)\[(?P<task>[^]]+)\]\.)?(?P<kind>cpu|gpu)\[(?P<index>[^]]+)\]")


def pattern_for(text: str, spot: Spot, patterns: Patterns, tasks: Patterns | None) -> Pattern:
    """Return the pattern of a name that a thing has or names.

    Args:
        text: The name.
        spot: The place of the thing.
        patterns: The names in the graph of a few clones.
        tasks: Those with places for the numbers of tasks alone, for names of another clone of the same task:
            its number stays. None if clones on a task never name each other.
    """
    found = patterns.of(text)
    if tasks is not None and found.spot.group not in (None, spot.group):
        return tasks.of(text)
    return found


def tensorflow_name(ref: str, *, emulate: bool) -> str:
    """Return the name in TensorFlow of devices of a kind, as a template."""
    if emulate:
        return f"/job:{LOCAL_JOB}/replica:0/task:0/device:CPU:{ORDINAL}"
    found = _DEVICE.fullmatch(ref)
    assert found is not None
    task = f"/job:{found['job'] or LOCAL_JOB}/replica:0/task:{found['task'] or 0}"
    return f"{task}/device:{found['kind'].upper()}:{found['index']}"


def _firsts(count: int) -> range:
    """Return the numbers that stand for those of all tasks or clones: the first, and the others if any."""
    return range(min(count, 2))


def joined(spots: Iterable[Spot], what: str) -> Spot:
    """Return the place of something that has several ends.

    Raises:
        NotAlikeError: Two ends are on different tasks or clones other than the first, so that no kind has
            both.
    """
    hosts: set[int] = set()
    groups: set[int] = set()
    for each in spots:
        hosts |= set() if each.host is None else {each.host}
        groups |= set() if each.group is None else {each.group}
    if len(hosts - {0}) > 1 or len(groups - {0}) > 1:
        raise NotAlikeError(f"{what} is of several tasks or clones")
    return Spot(max(hosts, default=None), max(groups, default=None))


def of_op(name: str, clone: int | None, patterns: Patterns) -> tuple[Pattern, Spot]:
    """Return the pattern of the name of an op, and its place: that of its clone, which the name may not have.

    Raises:
        NotAlikeError: The name is that of another clone.
    """
    found = patterns.of(name)
    if clone is None or not patterns.listed.by_group:
        return found, found.spot
    own, named = patterns.grid.spot(clone), found.spot
    if named.host not in (None, 0, own.host) or named.group not in (None, 0, own.group):
        raise NotAlikeError(f"{name} is of several clones")
    return found, own


def grows_with_task(name: str, spot: Spot, grid: MapGrid) -> bool:
    """Whether sizes of an op may depend on the clones of its task; the pipe of the first has no number."""
    return spot.host is not None or grid.hosts == 1 or name.startswith("input/")


def proportion(
    few: int, more: int, grids: Sequence[MapGrid], *, of_task: bool, of_worker: bool = False
) -> tuple[int, int, int] | None:
    """Return the numbers of things among few, more and many clones to which two sizes are in proportion.

    They are divided by what divides all three, so that equal proportions are equal numbers: with as many
    tasks as the few have, all clones grow as those of a task do.
    """
    counts = [tuple(each.clones for each in grids)]
    counts += [tuple(each.groups for each in grids)] * of_task + [
        tuple(each.hosts for each in grids)
    ] * of_worker
    for one, other, many in counts:
        if few * other == more * one and one != other and few % one == 0:
            common = gcd(one, other, many)
            return one // common, other // common, many // common
    return None
