"""The placement map of clones that are alike: `placement.json` of version 2, which does not grow with clones.

What is the same for many clones or tasks is there once, with places in its texts for their numbers. Version 1
has the records of each clone. Readers of a map ask the same of both, and need not know which of them it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from itertools import product
from typing import Any, Protocol, TypeAlias, TypeVar

from attrs import define, evolve, field, fields, frozen, has

from compiler.figures import gathered, ranges
from compiler.kinds.grid import MapGrid, repeated
from compiler.kinds.kinds import (
    CloneKind,
    CopyKind,
    DeviceKind,
    KindTime,
    LinkTimeKind,
    MapKind,
    OpKind,
    TransferKind,
    VariableKind,
)
from compiler.kinds.step_kinds import Member
from compiler.kinds.templates import (
    INDEX,
    ORDINAL,
    PLACE,
    SUFFIX,
    SUM,
    TASK,
    Numbers,
    Template,
    escaped,
    parse,
)
from compiler.kinds.tensors import largest_at
from compiler.mapping.records import (
    Counted,
    DeviceTime,
    Links,
    LinkTime,
    MapAssumption,
    MapClone,
    MapDevice,
    MapMode,
    MapOp,
    MapSpec,
    MapTime,
    MapTransfer,
    MapVariable,
    MapWorker,
    Placed,
    PlacementMap,
    RuleRef,
    Sought,
    json_lines,
)
from compiler.process import collector_paused
from dsl.files.typed_json import NAME
from dsl.shown import Shown

KINDS_VERSION = "2.0"


# --- what a kind stands for -------------------------------------------------------------------------------


class _OfKind(Protocol):
    @property
    def of(self) -> int: ...


K = TypeVar("K", bound=_OfKind)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class _Like(_OfKind, Protocol[R_co]):
    @property
    def like(self) -> R_co: ...


_TEXTS = {"decided_by", "device", "devices", "from_device", "name", "of", "ref", "requested", "scope", "text"}
_TEXTS |= {"to_device"}
"""The fields whose texts have places for numbers."""

_NUMBERS = {"clone", "index"}
"""The fields with the number of a clone."""

_OWN = _TEXTS | _NUMBERS | {"largest", "rule", "shard"}
"""The fields in which things of a kind may differ."""


@cache
def _fields(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Return the names of the fields of a record, and whether things of a kind may differ in them."""
    return tuple((each.name, each.name in _OWN) for each in fields(kind))


def texts_of(record: Any) -> Iterator[str]:
    """Yield the texts with places for numbers of a record, and of those in it."""
    for name, is_own in _fields(record.__class__):
        values = getattr(record, name) if is_own else None
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, str):
                yield value
            elif has(type(value)):
                yield from texts_of(value)


@define
class Kinds:
    """The kinds of a map, and the names of their things.

    Attributes:
        placement: The map.
        numbers: The numbers of its tasks and clones.
        scopes: The scope of each clone of a kind, as a template with a slash, by the number of the kind.
    """

    placement: KindMap
    numbers: Numbers = field(init=False)
    scopes: dict[int, str] = field(init=False)
    _templates: dict[str, Template] = field(factory=dict)
    _devices: dict[tuple[str, int], tuple[str, ...]] = field(factory=dict)
    _rules: dict[tuple[int, int, int], RuleRef] = field(factory=dict)
    _ranges: dict[tuple[int, int], str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.numbers = Numbers(self.placement.grid)
        self.scopes = {each.of: f"{each.like.scope}/" for each in self.placement.clone_kinds}

    def template(self, text: str) -> Template:
        """Return a text of the map as a template."""
        found = self._templates.get(text)
        if found is None:
            found = self._templates[text] = parse(text, self.numbers.grid)
        return found

    def at(self, text: str, host: int, group: int) -> str:
        """Return a text of the map for a task and a clone on it."""
        return self.template(text).at(self.numbers, host, group)

    def members(self, of: int) -> Iterator[Member]:
        """Yield the task, and the clone on it, of each thing of a kind."""
        kind = self.placement.kinds[of]
        return product(kind.hosts, kind.groups)

    def repeated(self, things: Iterable[K]) -> Iterator[tuple[K, int, int]]:
        """Yield the things of some kinds in the order of version 1: the kind, task and clone of each."""
        spots = [each.spot for each in self.placement.kinds]
        return repeated([(spots[each.of], each) for each in things], self.numbers.grid)

    def devices(self, text: str, of: int) -> tuple[str, ...]:
        """Return the devices that a template names for the things of a kind, equally many on each."""
        key = (text, of)
        found = self._devices.get(key)
        if found is None:
            found = self._devices[key] = tuple(self._named(self.template(text), self.placement.kinds[of]))
        return found

    def _named(self, template: Template, kind: MapKind) -> Iterator[str]:
        places = [each for each in template.parts if isinstance(each, int)]
        hosts = kind.hosts if TASK in places else (0,)
        of_clone = any(each == PLACE or INDEX <= each < SUM for each in places)
        groups = kind.groups if of_clone else (0,)
        for host, group in product(hosts, groups):
            yield template.at(self.numbers, host, group)

    def one(self, like: R, host: int, group: int) -> R:
        """Return one thing of a kind, with its own numbers in its texts."""
        kind: Any = type(like)
        found: R = kind(
            *[
                self._own(name, getattr(like, name), host, group) if is_own else getattr(like, name)
                for name, is_own in _fields(kind)
            ]
        )
        return found

    def _own(self, name: str, value: Any, host: int, group: int) -> Any:
        if value is None or isinstance(value, str):
            return value and self.template(value).at(self.numbers, host, group)
        if name in _NUMBERS:
            return self.numbers.grid.number(host, group)
        if name == "rule":  # most ops have one of a few
            key = (id(value), host, group)
            if key not in self._rules:
                self._rules[key] = self.one(value, host, group)
            return self._rules[key]
        if name == "largest":
            tensors = [(each.bytes, self.template(each.name)) for each in value]
            return largest_at(tensors, self.numbers, host, group)
        if isinstance(value, tuple):
            return tuple(self.at(each, host, group) for each in value)
        return self.one(value, host, group)

    def ranged(self, text: str, of: int) -> str:
        """Return one text for all things of a kind, with ranges for the numbers in which they differ."""
        parts = self.template(text).parts
        return "".join([each if isinstance(each, str) else self._range(each, of) for each in parts])

    def _range(self, what: int, of: int) -> str:
        key = (what, of)
        if key not in self._ranges:
            template = Template((what,))
            texts = {template.at(self.numbers, *each) for each in self.members(of)}
            start = "_" if what == SUFFIX else ""
            self._ranges[key] = start + ranges(int(each.removeprefix("_")) for each in texts if each)
        return self._ranges[key]


@define
class _Search:
    """Ops with names that are looked for, found without naming all of them."""

    kinds: Kinds
    sought: Sought
    possible: dict[tuple[Template, int], list[Member]] = field(factory=dict)

    def members(self, kind: OpKind, scope: str) -> list[Member] | None:
        """Return the ops of a kind whose names, with or without a scope, are looked for; None for all."""
        name = self.kinds.template(kind.like.name)
        inside = self.kinds.template(kind.like.name.removeprefix(scope))
        if len(inside.parts) == 1 and isinstance(inside.parts[0], str):
            if self.sought.matches(inside.parts[0]):
                return None
            ways = [name]
        else:
            ways = [name, inside] if scope else [name]
        ways = [each for each in ways if len(each.parts) > 1 and self._may_contain(each)]
        numbers = self.kinds.numbers
        found = {
            member
            for way in ways
            for member in self._beginning_like(way, kind.of)
            if self.sought.matches(way.at(numbers, *member))
        }
        return sorted(found)

    def _may_contain(self, name: Template) -> bool:
        """Whether names may have the text in them that all names have that are looked for."""
        whole = SUFFIX in name.parts  # it may be empty, so that the texts around it are one
        return whole or any(self.sought.part in each for each in name.parts if isinstance(each, str))

    def _beginning_like(self, name: Template, of: int) -> list[Member]:
        """Return the things of a kind whose names may begin like those that are looked for."""
        key = (Template(name.parts[:2]), of)
        found = self.possible.get(key)
        if found is None:
            numbers, begin = self.kinds.numbers, self.sought.begin
            found = self.possible[key] = [
                each for each in self.kinds.members(of) if _may_begin(key[0].at(numbers, *each), begin)
            ]
        return found


def _may_begin(first: str, begin: str) -> bool:
    short = min(len(first), len(begin))
    return first[:short] == begin[:short]


# --- the map ----------------------------------------------------------------------------------------------


@frozen
class KindMap(Shown):
    """The whole map, by kinds.

    The numbers in texts are written as `{clone}`, `{task}` and so on, and braces are doubled. Things are in
    the order of version 1, in which what is of one task or clone is repeated.

    Attributes:
        spec: The spec.
        tensorflow: The version of TensorFlow.
        mode: How the graph updates its weights.
        grid: The tasks and clones.
        kinds: What there is: single things, things of tasks, and things of clones.
        device_kinds: The devices.
        clone_kinds: The towers.
        variable_kinds: The variables.
        op_kinds: The ops.
        transfer_kinds: What a step sends between devices.
        assumptions: The sizes on which the bytes of steps and transfers rest.
        time: The forecast of the time of a step, or None if there is none.
        listed: The task of which the map lists the graph, such as `worker:0`, if each task with clones has a
            graph of its own; these graphs are alike. None if one graph has all clones.
        format_version: The version of the format.
    """

    spec: MapSpec
    tensorflow: str
    mode: MapMode
    grid: MapGrid
    kinds: tuple[MapKind, ...]
    device_kinds: tuple[DeviceKind, ...] = field(metadata={NAME: "devices"})
    clone_kinds: tuple[CloneKind, ...] = field(metadata={NAME: "clones"})
    variable_kinds: tuple[VariableKind, ...] = field(metadata={NAME: "variables"})
    op_kinds: tuple[OpKind, ...] = field(repr=False, metadata={NAME: "ops"})
    transfer_kinds: tuple[TransferKind, ...] = field(metadata={NAME: "transfers"})
    assumptions: tuple[MapAssumption, ...] = ()
    time: KindTime | None = None
    listed: str | None = None
    format_version: str = KINDS_VERSION

    def to_json(self) -> str:
        """Return the text of `placement.json`: format version first, one kind of ops in each line."""
        return json_lines(self)

    @cached_property
    def named(self) -> Kinds:
        """What its kinds stand for, and the names of their things."""
        return Kinds(self)

    # --- as the map of each clone has it ------------------------------------------------------------------

    def expanded(self, beside: AnyMap | None = None) -> PlacementMap:
        """Return the map with the records of each clone. Of thousands of clones, it has millions of records.

        Args:
            beside: A map with which it is compared. If both are of the same kinds, the ops and links that are
                the same in both are left out, so that two maps are compared as fast as their differences are
                many.
        """
        ops, links = self.op_kinds, self.transfer_kinds
        if isinstance(beside, KindMap) and (self.grid, self.kinds) == (beside.grid, beside.kinds):
            same = {_compared_op(each) for each in beside.op_kinds}
            ops = tuple(each for each in ops if _compared_op(each) not in same)
            alike = {_compared_link(each) for each in beside.transfer_kinds}
            links = tuple(each for each in links if _compared_link(each) not in alike)
        with collector_paused():
            return PlacementMap(
                spec=self.spec,
                tensorflow=self.tensorflow,
                mode=self.mode,
                devices=self.devices,
                clones=self.clones,
                variables=self.variables,
                ops=tuple(self._each(ops)),
                transfers=self._transfers(links),
                misplaced=(),
                time=self._time(),
                assumptions=self.assumptions,
                workers=self.workers,
            )

    def _each(self, kinds: Iterable[_Like[R]]) -> Iterator[R]:
        """Yield the things of some kinds in the order of version 1."""
        return (self.named.one(kind.like, host, group) for kind, host, group in self.named.repeated(kinds))

    @cached_property
    def devices(self) -> tuple[MapDevice, ...]:
        """The devices."""
        found = []
        for ordinal, (kind, host, group) in enumerate(self.named.repeated(self.device_kinds)):
            like = evolve(kind.like, device=kind.like.device.replace(ORDINAL, str(ordinal)))
            found.append(self.named.one(like, host, group))
        return tuple(found)

    @cached_property
    def clones(self) -> tuple[MapClone, ...]:
        """The towers."""
        return tuple(self._each(self.clone_kinds))

    @property
    def workers(self) -> tuple[MapWorker, ...]:
        """The workers that have graphs of their own; empty if one graph has all clones."""
        grid = self.named.numbers.grid
        tasks = () if self.listed is None else tuple(f"{grid.job}:{host}" for host in range(grid.hosts))
        return tuple(
            MapWorker(
                task, tuple(grid.number(host, group) for group in range(grid.groups)), task == self.listed
            )
            for host, task in enumerate(tasks)
        )

    @property
    def variables(self) -> tuple[MapVariable, ...]:
        """The variables."""
        copies: dict[tuple[CopyKind, ...], tuple[str, ...]] = {}
        for each in self.variable_kinds:
            if each.copies not in copies:
                copies[each.copies] = tuple(
                    self.named.at(kind.device, host, group)
                    for kind, host, group in self.named.repeated(each.copies)
                )
        return tuple(
            evolve(each.like, copies=copies[each.copies], slots=tuple(self._each(each.slots)))
            for each in self.variable_kinds
        )

    @property
    def transfers(self) -> tuple[MapTransfer, ...]:
        """What a step sends between devices, in the order of these."""
        return self._transfers(self.transfer_kinds)

    def _transfers(self, kinds: Sequence[TransferKind]) -> tuple[MapTransfer, ...]:
        order = {each.ref: at for at, each in enumerate(self.devices)}
        found = [
            self.named.one(kind.like, *member) for kind in kinds for member in self.named.members(kind.of)
        ]
        return tuple(sorted(found, key=lambda each: (order[each.from_device], order[each.to_device])))

    def _time(self) -> MapTime | None:
        time = self.time
        if time is None:
            return None
        links = tuple(self._link_times(time.link_kinds))
        shared = (time.seconds, time.estimate, time.measured, time.source)
        return MapTime(*shared, self.device_times, links, time.by_scope, time.by_rule, time.bubble)

    @property
    def misplaced(self) -> tuple[MapOp, ...]:
        """The ops that TensorFlow put elsewhere than requested: none, because no step has run."""
        return ()

    # --- what readers ask of any map ----------------------------------------------------------------------

    @property
    def op_count(self) -> int:
        """The number of ops."""
        return sum(self.kinds[each.of].count for each in self.op_kinds)

    @property
    def ran(self) -> int:
        """The number of ops of which it is known where they ran: none, because no step has run."""
        return 0

    @property
    def ops_like(self) -> tuple[MapOp, ...]:
        """The ops, one of each kind. Their texts have places for numbers."""
        return tuple(each.like for each in self.op_kinds)

    @property
    def variables_like(self) -> tuple[MapVariable, ...]:
        """The variables without their copies and slots."""
        return tuple(each.like for each in self.variable_kinds)

    @property
    def device_times(self) -> tuple[DeviceTime, ...]:
        """How busy the devices are; none if no time was forecast."""
        return () if self.time is None else tuple(self._each(self.time.device_kinds))

    def busiest_links(self) -> Iterator[LinkTime]:
        """Yield how busy the links are, the busiest first; none if no time was forecast."""
        kinds = () if self.time is None else self.time.link_kinds
        return self._link_times(sorted(kinds, key=lambda each: -each.like.busy))

    def _link_times(self, kinds: Iterable[LinkTimeKind]) -> Iterator[LinkTime]:
        for kind in kinds:
            for member in self.named.members(kind.of):
                yield self.named.one(kind.like, *member)

    def links(self) -> Iterator[Links]:
        """Yield the links between devices, those of a kind together."""
        for kind in self.transfer_kinds:
            like, count = kind.like, self.kinds[kind.of].count
            ends = [self.named.devices(text, kind.of) for text in (like.from_device, like.to_device)]
            yield Links(ends[0], ends[1], like.bytes, like.bytes_unknown, count)

    def counted(self, sought: Sought | None = None, *, misplaced: bool = False) -> Iterator[Counted]:
        """Yield the ops, those of a kind together.

        Args:
            sought: Chooses ops by their names in the graph, or in their tower. If only some ops of a kind are
                chosen, these are yielded one by one.
            misplaced: Whether to choose only ops that TensorFlow put elsewhere than requested.
        """
        if misplaced:
            return
        everything: Iterable[tuple[int, Sequence[Member] | None]]
        everything = ((at, None) for at in range(len(self.op_kinds)))
        for at, members in everything if sought is None else self.members_sought(sought):
            kind = self.op_kinds[at]
            if members is None:
                yield self._whole(kind)
            for member in members or ():
                op = self.named.one(kind.like, *member)
                yield Counted(op, None, 1, (op.requested,), op.name, None, op.name)

    def by_scope(self, levels: int) -> Iterator[Counted]:
        """Yield the ops, those of a kind together."""
        del levels
        return self.counted()

    def names_in_towers(self) -> dict[int, set[str]]:
        """Return the names of the ops of clones inside their towers, by `Counted.tower`."""
        of_clones = (each for each in self.counted() if each.op.clone is not None)
        pairs = ((each.tower, each.inner) for each in of_clones if each.tower is not None)
        return {tower: set(names) for tower, names in gathered(pairs).items()}

    def _whole(self, kind: OpKind) -> Counted:
        of, like, scope = kind.of, kind.like, self.named.scopes.get(kind.of)
        tower = None if scope is None or not like.name.startswith(scope) else of
        inner = like.name.removeprefix(scope or "")
        first = self.named.at(like.name, *next(self.named.members(of)))
        devices = self.named.devices(like.requested, of)
        return Counted(like, of, self.kinds[of].count, devices, first, tower, inner)

    def members_sought(
        self, sought: Sought, *, inner: bool = True
    ) -> Iterator[tuple[int, Sequence[Member] | None]]:
        """Yield the kinds of ops with names that are looked for: the number of each kind, and these ops.

        The ops are None if they are all of the kind.
        """
        search = _Search(self.named, sought)
        scopes = self.named.scopes if inner else {}
        for at, kind in enumerate(self.op_kinds):
            found = search.members(kind, "" if kind.like.clone is None else scopes.get(kind.of, ""))
            if found is None or found:
                yield at, found

    def clones_of_tower(self, tower: int) -> list[int]:
        """Return the numbers of the clones for which a `Counted.tower` stands."""
        return [self.named.numbers.grid.number(*each) for each in self.named.members(tower)]

    def places(self, op: Counted) -> Iterator[tuple[int, Placed]]:
        """Yield the devices of each of ops that are alike, with the number of its clone."""
        assert op.of is not None
        for member in self.named.members(op.of):
            yield self.named.numbers.grid.number(*member), (self.named.at(op.op.requested, *member), None)

    def rule_of(self, op: Counted) -> RuleRef:
        """Return what placed the first of ops that are alike."""
        assert op.of is not None
        return self.named.one(op.op.rule, *next(self.named.members(op.of)))

    def ranged(self, op: Counted, text: str) -> str:
        """Return one name for ops that are alike, with ranges for the numbers in which they differ."""
        return text if op.of is None else self.named.ranged(text, op.of)

    def last_name(self, op: Counted) -> str:
        """Return the name of the last of ops that are alike."""
        assert op.of is not None
        kind = self.kinds[op.of]
        return self.named.at(op.op.name, kind.hosts[-1], kind.groups[-1])

    def held(self) -> dict[str, int]:
        """Return the bytes of the variables, copies and slots, by the names of the ops that hold them."""
        found: dict[str, int] = {}
        for each in self.variable_kinds:
            name, size = escaped(each.like.name), each.like.bytes
            found |= {name: size, f"{name}/replica_{{clone}}": size}
            found |= {slot.like.name: slot.like.bytes for slot in each.slots}
        return found


def _compared_op(kind: OpKind) -> tuple[object, ...]:
    """Return what is compared of ops."""
    like = kind.like
    return (kind.of, like.name, like.type, like.clone, like.requested)


def _compared_link(kind: TransferKind) -> tuple[object, ...]:
    """Return what is compared of links."""
    like = kind.like
    return (kind.of, like.from_device, like.to_device, like.tensors, like.bytes, like.bytes_unknown)


AnyMap: TypeAlias = PlacementMap | KindMap
"""A placement map, with the records of each clone or by kinds. Both offer the same to those who read it."""
