"""A step by sites, which are what each scope has on each device, and what one sends to another.

Many clones that are alike are not gone through op by op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from attrs import define, field, frozen

from compiler.kinds.deployment.repeat import repeated
from compiler.kinds.names.templates import Numbers, Template
from compiler.kinds.records.kind_map import KindMap
from compiler.kinds.records.sets import Kinds
from compiler.kinds.records.step_kinds import Member, StepKinds
from compiler.mapping.records import PlacementMap
from compiler.mapping.step_graph import StepGraph
from compiler.report import scopes
from compiler.report.counted_scopes import inner_names
from dsl.gathering import gathered

Site = tuple[str, str]
"""The path of a scope, in which equal clones are one, and a device."""

Tensors = Sequence[tuple[str, int | None]]
"""The name of each tensor, and its bytes, or None if they are not known."""


@frozen
class StepSites:
    """The ops of a step by sites, and the tensors between these.

    Attributes:
        ops: The number of ops of each site, in the order of the graph.
        edges: A site, another one that uses tensors of it, and those tensors of them that are sent to another
            device. There may be several for the same sites, and for the same tensor.
    """

    ops: Mapping[Site, int]
    edges: Iterable[tuple[Site, Site, Tensors]]


def sites_of(placement: PlacementMap, step: StepGraph, fold_from: int) -> StepSites:
    """Return the sites of a step.

    Args:
        placement: The map, with the records of each clone.
        step: The ops of a step and the tensors between them.
        fold_from: The least number of clones that are combined if they are equal.
    """
    named = scopes.fold(placement, fold_from)
    of_op = {op.name: (_scope_of(named(op)), op.requested) for op in placement.ops if op.name in step.ops}

    def edges() -> Iterator[tuple[Site, Site, Tensors]]:
        for each in step.edges:
            source, target = of_op[each.source], of_op[each.target]
            sent = source[1] != target[1] and not each.handle
            yield source, target, ((each.tensor, each.bytes),) if sent else ()

    return StepSites(Counter(of_op.values()), edges())


def sites_of_kinds(placement: KindMap, step: StepKinds, fold_from: int) -> StepSites:
    """Return the sites of a step of clones that are alike.

    Args:
        placement: The map.
        step: The ops of a step and the tensors between them.
        fold_from: The least number of clones that are combined if they are equal.
    """
    found = _Sites(step, _fold_kinds(placement, fold_from))
    return StepSites(found.counts(), found.edges())


def _scope_of(name: str) -> str:
    return name.rpartition("/")[0]


def _fold_kinds(placement: KindMap, fold_from: int) -> Callable[[str], str]:
    """Return a function that names ops of equal clones under one scope, as `scopes.fold` does."""
    every, kinds = scopes.clone_scopes(placement), Kinds(placement)
    if len(every) < fold_from:
        return str
    grid = kinds.numbers.grid
    listed = range(grid.clones if placement.listed is None else grid.groups)
    names: dict[int, frozenset[str]] = {}
    for of, inner in inner_names(placement).items():
        templates = [kinds.template(each) for each in inner]
        shared = frozenset(each.at(kinds.numbers, 0, 0) for each in templates if _is_fixed(each))
        own = [each for each in templates if not _is_fixed(each)]
        for member in kinds.members(of):
            more = {each.at(kinds.numbers, *member) for each in own}
            names[grid.number(*member)] = shared | more if more else shared
    return scopes.renaming({at: every[at] for at in listed}, {at: names[at] for at in listed})


def _is_fixed(template: Template) -> bool:
    return all(isinstance(each, str) for each in template.parts)


@frozen
class _SiteKind:
    """The scopes and devices of ops that are alike."""

    scope: Template
    device: Template
    like: Member  # 1 for what is there for several tasks or clones

    def member(self, host: int, group: int) -> Member:
        return host * self.like[0], group * self.like[1]


@define
class _Sites:
    step: StepKinds
    named: Callable[[str], str]
    numbers: Numbers = field(init=False)
    of_op: list[_SiteKind] = field(init=False)  # by kind of ops
    known: dict[tuple[int, Member], Site] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.numbers = Numbers(self.step.grid)
        kinds: dict[_SiteKind, _SiteKind] = {}  # one object for equal ones, so that they are told by identity
        self.of_op = []
        for op in self.step.ops:
            like = (1 if op.spot.host else 0, 1 if op.spot.group else 0)
            kind = _SiteKind(_outer(op.name), op.device, like)
            self.of_op.append(kinds.setdefault(kind, kind))

    def at(self, kind: _SiteKind, host: int, group: int) -> Site:
        """Return one of the sites of a kind; the numbers of what it is not of do not matter."""
        member = kind.member(host, group)
        key = (id(kind), member)
        found = self.known.get(key)
        if found is None:
            scope = kind.scope.at(self.numbers, *member)
            path = _scope_of(self.named(f"{scope}/")) if scope else ""
            found = self.known[key] = (path, kind.device.at(self.numbers, *member))
        return found

    def counts(self) -> dict[Site, int]:
        """Count the ops of each site; those beside each other are repeated together for all clones."""
        found: Counter[Site] = Counter()
        pairs = zip(self.step.ops, self.of_op, strict=True)
        things = [
            (spot, (kind, count))
            for spot, run in groupby(pairs, lambda each: each[0].spot)
            for kind, count in Counter(kind for _, kind in run).items()
        ]
        for (kind, count), host, group in repeated(things, self.step.grid):
            found[self.at(kind, host, group)] += count
        return found

    def edges(self) -> Iterator[tuple[Site, Site, Tensors]]:
        """Yield the edges, those between the same sites together."""
        together = gathered(
            ((id(self.of_op[each.source]), id(self.of_op[each.target]), each.spot), each)
            for each in self.step.edges
        )
        for edges in together.values():
            source, target = self.of_op[edges[0].source], self.of_op[edges[0].target]
            tensors = [each for each in edges if not each.handle]
            for member in edges[0].members(self.step.grid):
                ends = self.at(source, *member), self.at(target, *member)
                sent = tensors if ends[0][1] != ends[1][1] else ()
                yield *ends, [(each.tensor.at(self.numbers, *member), each.bytes) for each in sent]


def _outer(name: Template) -> Template:
    """Return the scope of a name, with its places."""
    for at in range(len(name.parts) - 1, -1, -1):
        part = name.parts[at]
        if isinstance(part, str) and "/" in part:
            return Template((*name.parts[:at], _scope_of(part)))
    return Template(())
