"""The ops of a step of many clones and the tensors between them, by kinds, from those of a few clones."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, frozen

from compiler.kinds.deployment.grid import Grid, NotAlikeError, Spot
from compiler.kinds.deployment.repeat import repeated
from compiler.kinds.growing.grow import joined, within
from compiler.kinds.names.patterns import Pattern, Patterns
from compiler.kinds.names.templates import Numbers
from compiler.kinds.records.step_kinds import EdgeKind, StepKinds, StepOpKind
from compiler.mapping.records import Edge, MapOp, PlacementMap, StepGraph


@frozen
class FewGraphs:
    """The graph of a step of a few clones, and that of somewhat more, which shows what grows.

    Attributes:
        few: The map of the few.
        step: Their step.
        patterns: The names in it.
        more: The map of somewhat more.
        step_of_more: Their step.
        grid: Their grid.
    """

    few: PlacementMap
    step: StepGraph
    patterns: Patterns
    more: PlacementMap
    step_of_more: StepGraph
    grid: Grid


def grow_graph(known: FewGraphs, grid: Grid) -> StepKinds:
    """Return the graph of a step of many clones, by kinds.

    Raises:
        NotAlikeError: The graph of somewhat more clones does not follow from that of the few.
    """
    if not _is(_grown(known, known.grid), known):
        raise NotAlikeError("more clones have ops in a step that do not feed each other like those of a few")
    return _grown(known, grid)


@frozen
class _Named:
    """An op of the few: the patterns of its name and of its device, and its place."""

    name: Pattern
    device: Pattern
    spot: Spot


def _grown(known: FewGraphs, grid: Grid) -> StepKinds:
    patterns, larger = known.patterns, Numbers(known.grid)
    found = {op.name: _named(op.name, op.requested, op.clone, patterns) for op in _ops(known.few, known.step)}
    numbers = {name: at for at, name in enumerate(found)}
    sizes = {(each.tensor, each.target): each.bytes for each in known.step_of_more.edges}

    def at_more(name: str) -> str:
        each = found[name]
        return each.name.at(larger, each.spot, each.spot.host or 0, each.spot.group or 0)

    def edge(each: Edge) -> EdgeKind:
        source, target = found[each.source], found[each.target]
        ends = joined((source.spot, target.spot), each.target)
        tensor = patterns.of(each.tensor)
        at = tensor.at(larger, ends, ends.host or 0, ends.group or 0)
        size = sizes.get((at, at_more(each.target)), -1)
        if source.device == target.device:
            each = _unsent(each)
        elif size != each.bytes:
            each = evolve(each, bytes=_as_many(each, size, source, known, grid))
        name = tensor.template(grid, ends)
        return EdgeKind(numbers[each.source], numbers[each.target], ends, name, each.bytes, each.handle)

    ops = tuple(
        StepOpKind(each.name.template(grid, each.spot), each.device.template(grid, each.spot), each.spot)
        for each in found.values()
    )
    return StepKinds(grid, ops, tuple(edge(each) for each in dict.fromkeys(known.step.edges)))


def _ops(placement: PlacementMap, step: StepGraph) -> Iterator[MapOp]:
    return (op for op in placement.ops if op.name in step.ops)


def _named(name: str, device: str, clone: int | None, patterns: Patterns) -> _Named:
    found = patterns.of(name)
    spot = found.spot
    if clone is not None and patterns.listed.by_group:
        spot = within(patterns.grid.spot(clone), spot, name)
    return _Named(found, patterns.of(device), spot)


def _as_many(edge: Edge, larger: int | None, source: _Named, known: FewGraphs, grid: Grid) -> int:
    """Return the size of a tensor among many clones, which is in proportion to their number."""
    grids = (known.patterns.grid, known.grid, grid)
    counts = [tuple(each.clones for each in grids)]
    of_first_pipe = edge.source.startswith("input/")
    if source.spot.host is not None or grid.hosts == 1 or of_first_pipe:
        counts.append(tuple(each.groups for each in grids))
    if edge.bytes is not None and larger is not None:
        for one, other, many in counts:
            if edge.bytes * other == larger * one and one != other and edge.bytes % one == 0:
                return edge.bytes // one * many
    raise NotAlikeError(f"the size of {edge.tensor} does not grow in proportion to their number")


def _is(kinds: StepKinds, known: FewGraphs) -> bool:
    """Whether kinds are those of the graph of somewhat more clones: its ops, in order, and its tensors."""
    numbers = Numbers(kinds.grid)
    things = ((each.spot, each) for each in kinds.ops)
    ops = [
        (each.name.at(numbers, *member), each.device.at(numbers, *member))
        for each, *member in repeated(things, kinds.grid)
    ]
    if ops != [(op.name, op.requested) for op in _ops(known.more, known.step_of_more)]:
        return False
    devices, edges = dict(ops), set()
    for each in kinds.edges:
        ends = kinds.ops[each.source], kinds.ops[each.target]
        for member in each.members(kinds.grid):
            source, target = (end.name.at(numbers, *end.member(*member)) for end in ends)
            tensor = each.tensor.at(numbers, *member)
            edges.add(Edge(source, target, tensor, each.bytes, each.handle))
    wanted = known.step_of_more.edges
    return edges == {
        each if devices[each.source] != devices[each.target] else _unsent(each) for each in wanted
    }


def _unsent(edge: Edge) -> Edge:
    """Return an edge whose ends are on one device, so that its size does not matter, as kinds have it."""
    return evolve(edge, bytes=None)
