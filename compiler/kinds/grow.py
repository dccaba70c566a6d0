"""The placement map of many clones, from that of a few.

The few are clones 0 and 1 on tasks 0 and 1. A record of one of them stands for those of all clones that are
alike: its names are written for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from attrs import define, evolve, field

from compiler.kinds.grid import Grid, NotAlikeError, Spot
from compiler.kinds.patterns import Numbers, Pattern, Patterns
from compiler.kinds.repeat import repeated, which
from compiler.kinds.tensors import largest_of, named, orbits_of
from compiler.mapping.records import (
    MapClone,
    MapDevice,
    MapOp,
    MapSlot,
    MapTransfer,
    MapVariable,
    PlacementMap,
    RuleRef,
)
from compiler.plan import Plan


def grow(few: PlacementMap, patterns: Patterns, grid: Grid, plan: Plan) -> PlacementMap:
    """Return the map of a deployment with many clones, without a forecast of the memory of a step.

    Args:
        few: The map of a few of its clones, with all tensors of each transfer.
        patterns: The names in that map.
        grid: The grid of all clones.
        plan: The plan of all clones.

    Raises:
        NotAlikeError: The many do not follow from the few.
    """
    return _Growing(few, patterns, grid, plan).map()


@define
class _Growing:
    few: PlacementMap
    patterns: Patterns
    grid: Grid
    plan: Plan
    numbers: Numbers = field(init=False)
    rules: dict[tuple[int, int, int], RuleRef] = field(factory=dict)
    same: dict[int, tuple[RuleRef, bool]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.numbers = Numbers(self.grid)

    def map(self) -> PlacementMap:
        ops = tuple(self._ops())
        return evolve(
            self.few,
            mode=evolve(self.few.mode, clones=self.grid.clones),
            devices=tuple(self._devices(Counter(each.requested for each in ops))),
            clones=tuple(
                MapClone(each.index, each.scope, tuple(device.ref for device in each.devices), each.batch)
                for each in self.plan.towers
            ),
            variables=tuple(map(self._variable, self.few.variables)),
            ops=ops,
            transfers=self._transfers(),
        )

    # --- ops ----------------------------------------------------------------------------------------------

    def _ops(self) -> Iterator[MapOp]:
        placed = []
        for op in self.few.ops:
            name, device = self.patterns.of(op.name), self.patterns.of(op.requested)
            spot = name.spot
            if op.clone is not None:
                own = self.patterns.grid.spot(op.clone)
                spot = _within(own, spot, op.name)
            plain = name.spot == spot and name.counted is None
            placed.append((spot, (op, spot, name, device, plain)))
        numbers, grid = self.numbers, self.grid
        devices: dict[tuple[int, int, int], str] = {}
        at, texts, clone = (-1, -1), numbers.of(0, 0), 0
        for (op, spot, name, device, plain), host, group in repeated(placed, grid):
            if at != (host, group):
                at, texts, clone = (host, group), numbers.of(host, group), grid.number(host, group)
            key = (id(device), host, group)
            ref = devices.get(key)
            if ref is None:
                ref = devices[key] = self._device(op, device, spot, host, group)
            yield MapOp(
                "".join([each if isinstance(each, str) else texts[each] for each in name.parts])
                if plain
                else name.at(numbers, spot, host, group),
                op.type,
                None if op.clone is None else clone,
                op.role,
                ref,
                None,
                self._rule(op.rule, spot, host, group),
            )

    def _device(self, op: MapOp, device: Pattern, spot: Spot, host: int, group: int) -> str:
        try:
            return device.at(self.numbers, spot, host, group)
        except NotAlikeError as fault:
            raise NotAlikeError(f"{op.name}, on {op.requested}: {fault}") from fault

    def _rule(self, rule: RuleRef, spot: Spot, host: int, group: int) -> RuleRef:
        """Return the reason of a thing; most reasons name no task or clone, and are the same for all."""
        known = self.same.get(id(rule))
        if known is None:
            known = self.same[id(rule)] = (rule, self._is_same_for_all(rule))
        if known[1]:
            return rule
        key = (id(rule), host, group)
        if key not in self.rules:
            texts = [
                None if each is None else self.patterns.of(each).at(self.numbers, spot, host, group)
                for each in (rule.text, rule.decided_by)
            ]
            assert texts[0] is not None
            self.rules[key] = evolve(rule, text=texts[0], decided_by=texts[1])
        return self.rules[key]

    def _is_same_for_all(self, rule: RuleRef) -> bool:
        """Whether a reason names no task or clone: a rule does not, but a default and a name may."""
        texts = [] if rule.reason == "rule" else [rule.text]
        texts += [rule.decided_by] if rule.file is None and rule.decided_by is not None else []
        return all(self.patterns.of(each).spot == Spot() for each in texts)

    # --- variables ----------------------------------------------------------------------------------------

    def _variable(self, variable: MapVariable) -> MapVariable:
        grid = self.grid
        slots = [(self.patterns.of(each.name).spot, each) for each in variable.slots]
        grown = [
            MapSlot(
                self.patterns.of(slot.name).at(self.numbers, self.patterns.of(slot.name).spot, host, group),
                slot.bytes,
                self.patterns.of(slot.device).at(self.numbers, self.patterns.of(slot.name).spot, host, group),
            )
            for slot, host, group in repeated(slots, grid)
        ]
        return evolve(variable, copies=tuple(self._copies(variable.copies)), slots=tuple(grown))

    def _copies(self, copies: Sequence[str]) -> Iterator[str]:
        """Yield the devices of the copies of a variable, one for each clone."""
        if not copies:
            return
        of = self.patterns.grid
        if len(copies) != of.clones:
            raise NotAlikeError("there are not as many copies as clones")
        spots = [(of.spot(clone), (of.spot(clone), ref)) for clone, ref in enumerate(copies)]
        for (spot, ref), host, group in repeated(spots, self.grid):
            yield self.patterns.of(ref).at(self.numbers, spot, host, group)

    # --- devices ------------------------------------------------------------------------------------------

    def _devices(self, ops: Counter[str]) -> Iterator[MapDevice]:
        of, names = {each.ref: each for each in self.few.devices}, Patterns(self.grid)
        few = Numbers(self.patterns.grid)
        for device in self.plan.topology.devices:
            same = of.get(likeness(device.ref, names, few))
            if same is None:
                raise NotAlikeError(f"{device.ref} has no likeness")
            yield evolve(
                same, ref=device.ref, device=self.plan.tensorflow_device(device), ops=ops[device.ref]
            )

    # --- transfers ----------------------------------------------------------------------------------------

    def _transfers(self) -> tuple[MapTransfer, ...]:
        order = {each.ref: each.ordinal for each in self.plan.topology.devices}
        grown = [each for link in self.few.transfers for each in self._links(link)]
        return tuple(sorted(grown, key=lambda each: (order[each.from_device], order[each.to_device])))

    def _links(self, link: MapTransfer) -> Iterator[MapTransfer]:
        ends = [self.patterns.of(each) for each in (link.from_device, link.to_device)]
        spot = joined((each.spot for each in ends), f"{link.from_device} to {link.to_device}")
        orbits = orbits_of(link.largest, spot, self.patterns)
        if any(each.missing for each in orbits):
            raise NotAlikeError(f"{link.from_device} sends something of only some clones")
        count = sum(each.count(self.grid) for each in orbits)
        total = sum(each.bytes * each.count(self.grid) for each in orbits)
        largest = largest_of(orbits, self.grid)
        for host, group in product(which(spot.host, self.grid.hosts), which(spot.group, self.grid.groups)):
            source, target = (each.at(self.numbers, spot, host, group) for each in ends)
            tensors = named(largest, host, group, self.numbers)
            yield MapTransfer(source, target, count + link.bytes_unknown, total, link.bytes_unknown, tensors)


def likeness(ref: str, names: Patterns, few: Numbers) -> str:
    """Return the device that stands for a device of many clones.

    Args:
        ref: The name of the device in specs.
        names: The names in the map of many clones.
        few: The numbers in the names of a few clones.
    """
    pattern = names.of(ref)
    spot = pattern.spot
    return pattern.at(few, spot, min(spot.host or 0, 1), min(spot.group or 0, 1))


def joined(spots: Iterable[Spot], what: str) -> Spot:
    """Return the place of something that has several ends."""
    hosts: set[int] = set()
    groups: set[int] = set()
    for each in spots:
        hosts |= set() if each.host is None else {each.host}
        groups |= set() if each.group is None else {each.group}
    if len(hosts - {0}) > 1 or len(groups - {0}) > 1:
        raise NotAlikeError(f"{what} is of several tasks or clones")
    return Spot(max(hosts, default=None), max(groups, default=None))


def _within(own: Spot, named: Spot, name: str) -> Spot:
    """Return the place of an op of a clone, which no part of its name may contradict."""
    if named.host not in (None, 0, own.host) or named.group not in (None, 0, own.group):
        raise NotAlikeError(f"{name} is of several clones")
    return own
