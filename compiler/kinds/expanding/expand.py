"""The placement map of version 1 from that of version 2: the records of each clone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol, TypeVar

from attrs import define, evolve, field

from compiler.collector import collector_paused
from compiler.kinds.deployment.grid import Grid
from compiler.kinds.deployment.repeat import repeated
from compiler.kinds.names.templates import ORDINAL, Template
from compiler.kinds.names.tensors import largest_at
from compiler.kinds.records.kind_map import (
    AnyMap,
    CopyKind,
    KindMap,
    LinkTimeKind,
    OpKind,
    TransferKind,
    VariableKind,
)
from compiler.kinds.records.sets import Kinds, spot_of_kind
from compiler.mapping.records import (
    MapClone,
    MapDevice,
    MapOp,
    MapSlot,
    MapTransfer,
    MapVariable,
    MapWorker,
    PlacementMap,
    RuleRef,
)
from compiler.mapping.step_time import LinkTime, MapTime


class _Kind(Protocol):
    @property
    def of(self) -> int: ...


K = TypeVar("K", bound=_Kind)


def expand(placement: AnyMap) -> PlacementMap:
    """Return a map with the records of each clone; one that has them is returned as it is.

    Args:
        placement: The map. Of thousands of clones, the result has millions of records.
    """
    if isinstance(placement, PlacementMap):
        return placement
    with collector_paused():
        return _Expansion(placement).map()


def devices_of(placement: AnyMap) -> tuple[MapDevice, ...]:
    """Return the devices of a map of any version."""
    return (
        placement.devices if isinstance(placement, PlacementMap) else tuple(_Expansion(placement).devices())
    )


def clones_of(placement: AnyMap) -> tuple[MapClone, ...]:
    """Return the clones of a map of any version."""
    return placement.clones if isinstance(placement, PlacementMap) else tuple(_Expansion(placement).clones())


def workers_of(placement: AnyMap) -> tuple[MapWorker, ...]:
    """Return the workers that have graphs of their own, for a map of any version; none if one has all."""
    if isinstance(placement, PlacementMap):
        return placement.workers
    return tuple(_Expansion(placement).workers())


def transfers_of(placement: AnyMap) -> tuple[MapTransfer, ...]:
    """Return what a step sends between devices, for a map of any version."""
    return placement.transfers if isinstance(placement, PlacementMap) else _Expansion(placement).transfers()


def time_of(placement: AnyMap) -> MapTime | None:
    """Return the forecast of the time of a step, for a map of any version; None if it has none."""
    return placement.time if isinstance(placement, PlacementMap) else _Expansion(placement).time()


def busy_of(placement: AnyMap) -> dict[str, float]:
    """Return the busy share of each device by its name, from 0 to 1; nothing if no time was forecast."""
    if placement.time is None:
        return {}
    if isinstance(placement, PlacementMap):
        return {each.ref: each.busy for each in placement.time.devices}
    kinds = Kinds(placement)
    return {
        ref: each.like.busy
        for each in placement.time.device_kinds
        for ref in kinds.devices(each.like.ref, each.of)
    }


def busiest_links(placement: AnyMap, count: int) -> list[LinkTime]:
    """Return the busiest links, the busiest first; only they are expanded of a map by kinds.

    Args:
        placement: The map, of any version.
        count: The most links that are returned.
    """
    if placement.time is None:
        return []
    if isinstance(placement, PlacementMap):
        return sorted(placement.time.links, key=lambda each: -each.busy)[:count]
    links = _Expansion(placement).links_of_time(
        sorted(placement.time.link_kinds, key=lambda each: -each.like.busy)
    )
    return list(islice(links, count))


def op_count(placement: AnyMap) -> int:
    """Return the number of ops of a map of any version."""
    if isinstance(placement, PlacementMap):
        return len(placement.ops)
    return sum(placement.kinds[each.of].count for each in placement.op_kinds)


def variables_like(placement: AnyMap) -> tuple[MapVariable, ...]:
    """Return the variables of a map of any version; of a map by kinds without their copies and slots."""
    if isinstance(placement, PlacementMap):
        return placement.variables
    return tuple(each.like for each in placement.variable_kinds)


def op_at(kind: OpKind, kinds: Kinds, host: int, group: int) -> MapOp:
    """Return one of the ops of a kind.

    Args:
        kind: The ops.
        kinds: The kinds of the map.
        host: The task of the op.
        group: The clone on the task.
    """

    def at(text: str) -> str:
        return kinds.template(text).at(kinds.numbers, host, group)

    like = kind.like
    clone = None if like.clone is None else kinds.numbers.grid.number(host, group)
    rule = rule_at(like.rule, kinds, host, group)
    return evolve(like, name=at(like.name), clone=clone, requested=at(like.requested), rule=rule)


def rule_at(rule: RuleRef, kinds: Kinds, host: int, group: int) -> RuleRef:
    """Return what placed one thing of a kind.

    Args:
        rule: What placed the kind, with templates for texts.
        kinds: The kinds of the map.
        host: The task of the thing.
        group: The clone on the task.
    """
    texts = [
        None if each is None else kinds.template(each).at(kinds.numbers, host, group)
        for each in (rule.text, rule.decided_by)
    ]
    assert texts[0] is not None
    return evolve(rule, text=texts[0], decided_by=texts[1])


def variables_of(placement: AnyMap) -> tuple[MapVariable, ...]:
    """Return the variables of a map of any version, with their copies and slots."""
    if isinstance(placement, PlacementMap):
        return placement.variables
    return tuple(_Expansion(placement).variables())


@define
class _Expansion:
    placement: KindMap
    kinds: Kinds = field(init=False)
    grid: Grid = field(init=False)
    rules: dict[tuple[int, int, int], RuleRef] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.kinds = Kinds(self.placement)
        self.grid = self.kinds.numbers.grid

    def map(self) -> PlacementMap:
        placement = self.placement
        return PlacementMap(
            spec=placement.spec,
            tensorflow=placement.tensorflow,
            mode=placement.mode,
            devices=tuple(self.devices()),
            clones=tuple(self.clones()),
            variables=tuple(self.variables()),
            ops=tuple(self._ops()),
            transfers=self.transfers(),
            misplaced=(),
            time=self.time(),
            assumptions=placement.assumptions,
            workers=tuple(self.workers()),
        )

    def _repeated(self, kinds: Iterable[K]) -> Iterator[tuple[K, int, int]]:
        spots = [spot_of_kind(each) for each in self.placement.kinds]
        return repeated([(spots[each.of], each) for each in kinds], self.grid)

    def _at(self, text: str, host: int, group: int) -> str:
        return self.kinds.template(text).at(self.kinds.numbers, host, group)

    def devices(self) -> Iterator[MapDevice]:
        """Yield the devices."""
        tensors: dict[int, list[tuple[int, Template]]] = {}
        numbers, template = self.kinds.numbers, self.kinds.template
        for ordinal, (kind, host, group) in enumerate(self._repeated(self.placement.device_kinds)):
            like = kind.like
            if id(kind) not in tensors:
                tensors[id(kind)] = [(each.bytes, template(each.name)) for each in like.largest]
            yield evolve(
                like,
                ref=self._at(like.ref, host, group),
                device=self._at(like.device.replace(ORDINAL, str(ordinal)), host, group),
                largest=largest_at(tensors[id(kind)], numbers, host, group),
            )

    def workers(self) -> Iterator[MapWorker]:
        """Yield the workers that have graphs of their own, if they have."""
        listed, grid = self.placement.listed, self.grid
        for host in range(grid.hosts) if listed is not None else ():
            task = f"{grid.job}:{host}"
            numbers = tuple(grid.number(host, group) for group in range(grid.groups))
            yield MapWorker(task, numbers, task == listed)

    def clones(self) -> Iterator[MapClone]:
        """Yield the clones."""
        for kind, host, group in self._repeated(self.placement.clone_kinds):
            devices = tuple(self._at(each, host, group) for each in kind.like.devices)
            scope = self._at(kind.like.scope, host, group)
            yield MapClone(self.grid.number(host, group), scope, devices, kind.like.batch)

    def _ops(self) -> Iterator[MapOp]:
        template, numbers, grid = self.kinds.template, self.kinds.numbers, self.grid
        parsed = {
            id(each): (each.like, template(each.like.name), template(each.like.requested))
            for each in self.placement.op_kinds
        }
        devices: dict[tuple[int, int, int], str] = {}
        for kind, host, group in self._repeated(self.placement.op_kinds):
            like, name, device = parsed[id(kind)]
            key = (id(device), host, group)
            ref = devices.get(key)
            if ref is None:
                ref = devices[key] = device.at(numbers, host, group)
            clone = None if like.clone is None else grid.number(host, group)
            rule = self._rule(like.rule, host, group)
            yield MapOp(name.at(numbers, host, group), like.type, clone, like.role, ref, like.assigned, rule)

    def _rule(self, rule: RuleRef, host: int, group: int) -> RuleRef:
        """Return a reason, of which most are the same for all."""
        key = (id(rule), host, group)
        found = self.rules.get(key)
        if found is None:
            decided = rule.decided_by
            found = RuleRef(
                rule.file,
                rule.line,
                rule.column,
                self._at(rule.text, host, group),
                rule.reason,
                None if decided is None else self._at(decided, host, group),
            )
            self.rules[key] = found
        return found

    def variables(self) -> Iterator[MapVariable]:
        """Yield the variables."""
        copies: dict[tuple[CopyKind, ...], tuple[str, ...]] = {}
        for each in self.placement.variable_kinds:
            if each.copies not in copies:
                copies[each.copies] = tuple(
                    self._at(kind.device, host, group) for kind, host, group in self._repeated(each.copies)
                )
            yield evolve(each.like, copies=copies[each.copies], slots=tuple(self._slots(each)))

    def _slots(self, variable: VariableKind) -> Iterator[MapSlot]:
        for kind, host, group in self._repeated(variable.slots):
            like, whole = kind.like, kind.like.shard
            name, device = (self._at(each, host, group) for each in (like.name, like.device))
            shard = None if whole is None else evolve(whole, of=self._at(whole.of, host, group))
            yield evolve(like, name=name, device=device, shard=shard)

    def time(self) -> MapTime | None:
        """Return the forecast of the time of a step, if there is one."""
        time = self.placement.time
        if time is None:
            return None
        return MapTime(
            time.seconds,
            time.estimate,
            time.measured,
            time.source,
            tuple(
                evolve(kind.like, ref=self._at(kind.like.ref, host, group))
                for kind, host, group in self._repeated(time.device_kinds)
            ),
            tuple(self.links_of_time(time.link_kinds)),
            time.by_scope,
            time.by_rule,
        )

    def links_of_time(self, kinds: Iterable[LinkTimeKind]) -> Iterator[LinkTime]:
        """Yield the links of some kinds, with how busy they are."""
        for kind in kinds:
            for host, group in self.kinds.members(kind.of):
                source, target = (
                    self._at(each, host, group) for each in (kind.like.from_device, kind.like.to_device)
                )
                yield evolve(kind.like, from_device=source, to_device=target)

    def transfers(self) -> tuple[MapTransfer, ...]:
        """Return the links between devices, in the order of these."""
        order = {each.ref: at for at, each in enumerate(self.devices())}
        found = [each for kind in self.placement.transfer_kinds for each in self._links(kind)]
        return tuple(sorted(found, key=lambda each: (order[each.from_device], order[each.to_device])))

    def _links(self, kind: TransferKind) -> Iterator[MapTransfer]:
        template, numbers, like = self.kinds.template, self.kinds.numbers, kind.like
        ends = template(like.from_device), template(like.to_device)
        tensors = [(each.bytes, template(each.name)) for each in like.largest]
        for host, group in self.kinds.members(kind.of):
            source, target = (each.at(numbers, host, group) for each in ends)
            largest = largest_at(tensors, numbers, host, group)
            yield MapTransfer(source, target, like.tensors, like.bytes, like.bytes_unknown, largest)
