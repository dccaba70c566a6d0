"""The work of a step of many clones, from that of a few.

Each op of the few stands for the same op of all clones that are alike. If tasks are processes of their own,
the last of them can stand for all but the first: it gets what servers send when all others have got it, and
what it sends counts as often as there are tasks for which it stands.

If clones update by themselves, each repeats its own ops. Then those of the first task and of the last are
there, and the simulation lets the servers do for the other tasks what they do for the last one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from attrs import define, evolve, field, frozen

from compiler.kinds.grid import MapGrid, NotAlikeError, Spot, repeated, which
from compiler.kinds.grow import grows_with_task, joined, of_op, proportion
from compiler.kinds.patterns import Pattern, Patterns
from compiler.kinds.templates import Numbers
from compiler.plan import Plan
from compiler.process import threads_on_one_machine
from compiler.time.work import Arrow, Echo, Signature, StepWork, TimedOp, scope_of
from compiler.topology import Device

_AS_ONE = ("ReadVariableOp",)
"""The types of ops beside variables of which one stands for those of several tasks between the first and the
last. They are so short that it makes little difference which thread runs them."""

_PARTS = 16
"""How many such ops there are at most, so that the threads of a server share them."""

_JOINING = ("ConcatV2",)
"""The types of ops that join vectors: what they make grows if some of these do, though not in proportion."""

_NUMBER = re.compile(r"\d+")
_VECTOR = re.compile(r"\w+\[(\d+)\]")


@frozen
class FewSteps:
    """The work of a step of a few clones.

    Attributes:
        few: The work.
        patterns: The names in it.
        more: The work of somewhat more clones, which shows what grows with their number.
        grid: The grid of these.
    """

    few: StepWork = field(repr=False)
    patterns: Patterns = field(repr=False)
    more: StepWork = field(repr=False)
    grid: MapGrid


def grow_step(known: FewSteps, grid: MapGrid, plan: Plan, *, fold: bool = False) -> StepWork:
    """Return the work of a step of many clones.

    Raises:
        NotAlikeError: The work of many does not follow from that of the few.
    """
    return _Growing(known, grid, plan, fold).work()


def has_same_work(one: StepWork, other: StepWork) -> bool:
    """Whether two steps have the same ops, in the same order, and whether these wait for the same.

    If clones update by themselves, each also has to repeat the same ops.
    """
    same = one.ops == other.ops and one.loops == other.loops
    return same and Counter(one.arrows) == Counter(other.arrows)


@frozen
class _Kind:
    """An op of the few.

    Attributes:
        op: The op, with the costs that it has among many clones.
        name: The pattern of its name.
        device: The pattern of the name of its device.
        spot: Its place.
        beside: Whether it is on a device of a task that another one may stand for.
        of_task: Whether it is of a task, so that its sizes may depend on the clones there.
    """

    op: TimedOp
    name: Pattern
    device: Pattern
    spot: Spot
    beside: bool
    of_task: bool


@define
class _Growing:
    known: FewSteps
    grid: MapGrid
    plan: Plan
    fold: bool
    numbers: Numbers = field(init=False)
    devices: dict[str, Device] = field(init=False)
    kinds: list[_Kind] = field(init=False)
    ends: list[Spot] = field(init=False)  # by arrow: the place of both of its ops
    ops: list[TimedOp] = field(factory=list)
    at: dict[tuple[int, int, int], int] = field(factory=dict)  # by op of the few, task and clone
    echoes: dict[tuple[int, str, Device], Echo] = field(factory=dict)
    joined: dict[tuple[int, int], int] = field(factory=dict)  # entries of joined vectors: few, more, and many

    def __attrs_post_init__(self) -> None:
        self.numbers = Numbers(self.grid)
        self.devices = {each.ref: each for each in self.plan.topology.devices}
        few = self.known.few
        self.kinds = [self._kind(each) for each in few.ops]
        self.ends = [
            joined((self.kinds[each.source].spot, self.kinds[each.target].spot), few.ops[each.target].name)
            for each in few.arrows
        ]

    def _kind(self, op: TimedOp) -> _Kind:
        patterns = self.known.patterns
        (name, spot), device = of_op(op.name, op.clone, patterns), patterns.of(op.device.ref)
        of_task = grows_with_task(op.name, spot, self.grid)
        return _Kind(op, name, device, spot, spot.host == 1 and device.spot.host == 1, of_task)

    def work(self) -> StepWork:
        few = self.known.few
        sizes = self._grow()
        for kind, host, group in self._places():
            self.at[kind, host, group] = len(self.ops)
            self.ops.append(self._op(self.kinds[kind], host, group))
        arrows = [
            each
            for arrow, ends, size in zip(few.arrows, self.ends, sizes, strict=True)
            for each in self._arrows(arrow, ends, size)
        ]
        arrows.sort(key=lambda each: each.target)
        work = evolve(
            few,
            ops=tuple(self.ops),
            arrows=tuple(arrows),
            devices=self.plan.topology.devices,
            task_threads=threads_on_one_machine(self.plan.spec.devices) if few.task_threads else {},
            loops=tuple(self._loops()),
        )
        return self._folded(work) if self.fold else work

    def _folded(self, work: StepWork) -> StepWork:
        """Return the work without the devices of the tasks that another one stands for."""
        others = {(self.grid.job, task) for task in range(1, self.grid.hosts - 1)}
        return evolve(
            work,
            devices=tuple(each for each in work.devices if each.host not in others),
            alike={(self.grid.job, self.grid.hosts - 1): self.grid.hosts - 1},
            echoes=tuple(self.echoes.values()),
        )

    def _loops(self) -> Iterator[tuple[int, ...]]:
        """Yield the ops that each clone repeats, if clones update by themselves."""
        few, patterns = self.known.few, self.known.patterns
        if not few.loops:
            return
        hosts = range(self.grid.hosts)
        for host in (0, self.grid.hosts - 1) if self.fold else hosts:
            for group in range(self.grid.groups):
                place = min(group, 1) if patterns.listed.by_group else group
                of_few = few.loops[patterns.grid.number(min(host, 1), place)]
                yield tuple(sorted({self._number(each, host, group) for each in of_few}))

    # --- what grows with the number of clones -------------------------------------------------------------

    def _grow(self) -> list[int]:
        """Find the costs of ops among many clones; return the bytes of arrows."""
        few, more = self.known.few, self.known.more
        larger = Numbers(self.known.grid)
        numbers = {each.name: at for at, each in enumerate(more.ops)}
        sent = {(each.target, each.tensor): each.bytes for each in more.arrows}
        twins = []
        for kind in self.kinds:
            name = kind.name.at(larger, kind.spot, kind.spot.host or 0, kind.spot.group or 0)
            if name not in numbers:
                raise NotAlikeError(f"only few clones have {name}")
            twins.append(numbers[name])
        inputs: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        sizes = []
        for arrow, ends in zip(few.arrows, self.ends, strict=True):
            size, own = arrow.bytes, self.kinds[arrow.target].spot
            if arrow.tensor:
                for grid, found in zip((self.known.grid, self.grid), inputs, strict=True):
                    found[arrow.target] += _times(ends, own, grid) - _times(
                        ends, own, self.known.patterns.grid
                    )
            if size:
                pattern = self.known.patterns.of(arrow.tensor)
                tensor = pattern.at(larger, ends, ends.host or 0, ends.group or 0)
                source = self.kinds[arrow.source]
                size = self._sent(
                    size, sent[twins[arrow.target], tensor], source, more.ops[twins[arrow.source]]
                )
            sizes.append(size)
        for at, kind in enumerate(self.kinds):
            op = self._like(kind, more.ops[twins[at]], inputs[0][at], inputs[1][at])
            self.kinds[at] = evolve(kind, op=op)
        return sizes

    def _sent(self, few: int, more: int, kind: _Kind, twin: TimedOp) -> int:
        """Return the bytes of what an op makes of many clones, from those of the few and of somewhat more."""
        before, after = kind.op.signature, twin.signature
        if before.type in _JOINING and few != more and len(before.inputs) == len(after.inputs):
            one, other = (_entries(each.inputs) for each in (before, after))
            if one and other and few * other == more * one:
                self._note_joined(one, other, kind, twin)
        return self._as_many(few, more, kind)

    def _note_joined(self, few: int, more: int, kind: _Kind, twin: TimedOp) -> None:
        """Note how many entries an op has that joins vectors of which some grow."""
        pairs = zip(kind.op.signature.inputs, twin.signature.inputs, strict=True)
        ratios = {self._ratio(*each, kind) for each in pairs if each[0] != each[1]}
        if len(ratios) == 1:
            ((one, other, many),) = ratios
            added, rest = divmod((more - few) * (many - one), other - one)
            if not rest:
                self.joined[few, more] = few + added

    def _like(self, kind: _Kind, twin: TimedOp, few_more: int, many_more: int) -> TimedOp:
        """Return an op with its costs among many clones."""
        op = kind.op
        before, after = op.signature, twin.signature
        if (before, op.flops, op.bytes) == (after, twin.flops, twin.bytes):
            return op
        if len(before.inputs) != len(after.inputs):
            added = Counter(after.inputs) - Counter(before.inputs)
            if len(added) != 1 or added.total() != few_more or before.detail != after.detail:
                raise NotAlikeError(f"{op.name} has inputs of several shapes")
            (text,) = added
            at = len(before.inputs) - before.inputs[::-1].index(text) if text in before.inputs else 0
            inputs = (*before.inputs[:at], *[text] * many_more, *before.inputs[at:])
            return self._costing(op, twin, evolve(before, inputs=inputs), (0, few_more, many_more))
        pairs = list(zip((*before.inputs, before.detail), (*after.inputs, after.detail), strict=True))
        ratios = [self._ratio(one, other, kind) for one, other in pairs if one != other]
        if not ratios:  # only its outputs grow
            ratios = [self._numbers(op.bytes, twin.bytes, kind)]
        if ratios.count(ratios[0]) != len(ratios):
            raise NotAlikeError(f"the sizes of {op.name} do not grow with their number")
        *inputs_of_many, detail = [self._text(one, other, kind) for one, other in pairs]
        return self._costing(op, twin, Signature(before.type, tuple(inputs_of_many), detail), ratios[0])

    def _costing(
        self, op: TimedOp, twin: TimedOp, signature: Signature, numbers: tuple[int, int, int]
    ) -> TimedOp:
        """Return an op whose FLOPs and bytes grow in proportion to numbers of things."""
        few, more, many = numbers
        flops, rest = divmod((twin.flops - op.flops) * (many - few), more - few)
        size, other = divmod((twin.bytes - op.bytes) * (many - few), more - few)
        if rest or other:
            raise NotAlikeError(f"the work of {op.name} does not grow with their number")
        return evolve(op, signature=signature, flops=op.flops + flops, bytes=op.bytes + size)

    def _ratio(self, one: str, other: str, kind: _Kind) -> tuple[int, int, int]:
        """Return the numbers of things in proportion to which the sizes in a text grow."""
        sizes = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=False)
        return self._numbers(*next((int(a), int(b)) for a, b in sizes if a != b), kind)

    def _text(self, one: str, other: str, kind: _Kind) -> str:
        """Return a text with the sizes that it has among many clones."""
        if one == other:
            return one
        if _NUMBER.sub("", one) != _NUMBER.sub("", other):
            raise NotAlikeError(f"`{one}` becomes `{other}`")
        sizes = [int(each) for each in _NUMBER.findall(other)]
        return _NUMBER.sub(lambda found: str(self._as_many(int(found[0]), sizes.pop(0), kind)), one)

    def _as_many(self, few: int, more: int, kind: _Kind) -> int:
        """Return a size among many clones: the same, or in proportion to their number."""
        if few == more:
            return few
        before, _, after = self._numbers(few, more, kind)
        return few * after // before

    def _numbers(self, few: int, more: int, kind: _Kind) -> tuple[int, int, int]:
        """Return the numbers of the few, of more and of many things to which sizes are in proportion."""
        grids, of_worker = (
            (self.known.patterns.grid, self.known.grid, self.grid),
            self.known.patterns.listed.of_worker,
        )
        found = proportion(few, more, grids, of_task=kind.of_task, of_worker=of_worker)
        if found is not None:
            return found
        for (one, other), many in self.joined.items():
            if few * other == more * one and few % one == 0:
                return one, other, many
        raise NotAlikeError(f"a size of {kind.op.name} does not grow in proportion to their number")

    # --- ops ----------------------------------------------------------------------------------------------

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """Yield the ops, each with its task and its clone, in the order of the graph."""
        things = [(each.spot, at) for at, each in enumerate(self.kinds)]
        for kind, host, group in repeated(
            things, self.grid.cut(2, self.grid.groups) if self.fold else self.grid
        ):
            tasks = self._tasks(self.kinds[kind]) if self.fold and host else (host,)
            yield from ((kind, each, group) for each in tasks)

    def _tasks(self, kind: _Kind) -> Sequence[int]:
        """Return the tasks that have an op of all tasks but the first, if one stands for others."""
        last = self.grid.hosts - 1
        if kind.beside or self.known.few.loops:
            return (last,)
        if kind.op.signature.type in _AS_ONE:
            return (*range(1, last, self._together), last)
        return range(1, last + 1)

    @property
    def _together(self) -> int:
        """The number of tasks for which one op of a short type is there, at most."""
        return max(1, -(-(self.grid.hosts - 2) // _PARTS))

    def _stand_in(self, kind: _Kind, host: int) -> int:
        """Return the task whose op stands for that of another one."""
        if not self.fold or kind.spot.host != 1:
            return host
        if kind.beside or self.known.few.loops:
            return self.grid.hosts - 1
        if kind.op.signature.type in _AS_ONE and host < self.grid.hosts - 1:
            return host - (host - 1) % self._together
        return host

    def _op(self, kind: _Kind, host: int, group: int) -> TimedOp:
        op, spot, numbers = kind.op, kind.spot, self.numbers
        name = kind.name.at(numbers, spot, host, group)
        clone, patterns = op.clone, self.known.patterns
        if clone is not None and not patterns.listed.of_worker:
            place = group if patterns.listed.by_group else patterns.grid.spot(clone).group or 0
            clone = self.grid.number(host, place)
        tower = "" if clone is None else self.plan.towers[clone].scope
        return TimedOp(
            name,
            op.signature,
            self.devices[kind.device.at(numbers, spot, host, group)],
            op.flops,
            op.bytes,
            op.times * self._copies(kind, host),
            clone,
            scope_of(name, tower),
            self._named(op.rule, spot, host, group),
            self._named(op.enters, spot, host, group),
            self._named(op.leaves, spot, host, group),
            op.begins,
            op.rounds,
        )

    def _copies(self, kind: _Kind, host: int) -> int:
        """Return for how many tasks an op runs that stands for those of others."""
        last = self.grid.hosts - 1
        of_all = self.fold and kind.spot.host == 1 and not kind.beside and host < last
        return min(self._together, last - host) if of_all and kind.op.signature.type in _AS_ONE else 1

    def _named(self, text: str, spot: Spot, host: int, group: int) -> str:
        return self.known.patterns.of(text).at(self.numbers, spot, host, group) if text else ""

    # --- arrows -------------------------------------------------------------------------------------------

    def _arrows(self, arrow: Arrow, ends: Spot, size: int) -> Iterator[Arrow]:
        """Yield an arrow of the few for all tasks and clones, and note what has no target here."""
        source, target = self.kinds[arrow.source], self.kinds[arrow.target]
        pattern = self.known.patterns.of(arrow.tensor) if arrow.tensor else None
        hosts: Sequence[int] = which(ends.host, self.grid.hosts)
        if self.fold and ends.host == 1:
            there = [self._tasks(each) for each in (source, target) if each.spot.host == 1]
            hosts = (self.grid.hosts - 1,) if target.beside else max(there, key=len)
        pairs = dict.fromkeys((self._stand_in(source, host), self._stand_in(target, host)) for host in hosts)
        for made, host in pairs:
            for group in which(ends.group, self.grid.groups):
                tensor = "" if pattern is None else pattern.at(self.numbers, ends, made, group)
                own = self._number(arrow.source, made, group)
                found = Arrow(own, self._number(arrow.target, host, group), tensor, size)
                if self.fold and target.beside and not source.beside and not self.known.few.loops:
                    self._echo(arrow, found, group)
                yield found

    def _number(self, kind: int, host: int, group: int) -> int:
        spot = self.kinds[kind].spot
        return self.at[kind, host if spot.host == 1 else 0, group if spot.group == 1 else 0]

    def _echo(self, arrow: Arrow, found: Arrow, group: int) -> None:
        """Note what goes to the tasks that the last one stands for, once for each of their devices."""
        source, device = self.kinds[arrow.source], self.ops[found.target].device
        counts: Counter[int] = Counter()
        for host in range(1, self.grid.hosts - 1):
            counts[self._number(arrow.source, self._stand_in(source, host), group)] += 1
        for number, count in counts.items():
            key = (number, found.tensor, device)
            self.echoes[key] = Echo(number, device, found.tensor, found.bytes, count)


def _entries(inputs: Sequence[str]) -> int:
    """Return how many entries vectors have that are joined before the axis; 0 if some are no vectors."""
    found = [_VECTOR.fullmatch(each) for each in inputs[:-1]]
    return sum(int(each[1]) for each in found if each is not None) if all(found) else 0


def _times(ends: Spot, own: Spot, grid: MapGrid) -> int:
    """Return how often an arrow is there for each of its targets, whose place is `own`."""
    hosts = len(which(ends.host, grid.hosts)) if ends.host != own.host else 1
    return hosts * (len(which(ends.group, grid.groups)) if ends.group != own.group else 1)
