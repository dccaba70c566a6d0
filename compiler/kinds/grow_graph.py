"""The ops of a step of many clones and the tensors between them, by kinds, from those of a few clones."""

from __future__ import annotations

from attrs import evolve, frozen

from compiler.kinds.grid import MapGrid, NotAlikeError, Spot, repeated
from compiler.kinds.grow import grows_with_task, joined, of_op, proportion
from compiler.kinds.patterns import Pattern, Patterns
from compiler.kinds.step_kinds import EdgeKind, StepKinds, StepOpKind
from compiler.kinds.templates import Numbers, Template


@frozen
class FewGraphs:
    """The graph of a step of a few clones, and that of somewhat more, which shows what grows.

    Attributes:
        few: The step of the few, each op by itself.
        patterns: The names in it.
        more: The step of somewhat more.
        grid: Their grid.
    """

    few: StepKinds
    patterns: Patterns
    more: StepKinds
    grid: MapGrid


def grow_graph(known: FewGraphs, grid: MapGrid) -> StepKinds:
    """Return the graph of a step of many clones, by kinds.

    Raises:
        NotAlikeError: The graph of somewhat more clones does not follow from that of the few.
    """
    if _listed(_grown(known, known.grid)) != _listed(known.more):
        raise NotAlikeError("more clones have ops in a step that do not feed each other like those of a few")
    return _grown(known, grid)


@frozen
class _Named:
    """An op of the few: the patterns of its name and of its device, and its place."""

    name: Pattern
    device: Pattern
    spot: Spot


def _grown(known: FewGraphs, grid: MapGrid) -> StepKinds:
    patterns, larger = known.patterns, Numbers(known.grid)
    found = [_named(each, patterns) for each in known.few.ops]
    sizes = {(each.target, _text(each.tensor)): each.bytes for each in known.more.edges}
    more = {_text(each.name): at for at, each in enumerate(known.more.ops)}

    def at_more(pattern: Pattern, spot: Spot) -> str:
        return pattern.at(larger, spot, spot.host or 0, spot.group or 0)

    def edge(each: EdgeKind) -> EdgeKind:
        source, target = found[each.source], found[each.target]
        ends = joined((source.spot, target.spot), _text(known.few.ops[each.target].name))
        tensor, size = patterns.of(_text(each.tensor)), each.bytes
        if source.device == target.device:
            size = None
        else:
            twin = more.get(at_more(target.name, target.spot), -1)
            other = sizes.get((twin, at_more(tensor, ends)), -1)
            if other != size:
                size = _as_many(each, other, source, known, grid)
        return evolve(each, spot=ends, tensor=tensor.template(grid, ends), bytes=size)

    ops = tuple(
        StepOpKind(each.name.template(grid, each.spot), each.device.template(grid, each.spot), each.spot)
        for each in found
    )
    return StepKinds(grid, ops, tuple(map(edge, known.few.edges)))


def _text(name: Template) -> str:
    """Return the name of an op or a tensor by itself."""
    return "".join(map(str, name.parts))


def _named(op: StepOpKind, patterns: Patterns) -> _Named:
    name, spot = of_op(_text(op.name), op.clone, patterns)
    return _Named(name, patterns.of(_text(op.device)), spot)


def _as_many(edge: EdgeKind, larger: int | None, source: _Named, known: FewGraphs, grid: MapGrid) -> int:
    """Return the size of a tensor among many clones, which is in proportion to their number."""
    of_task = grows_with_task(_text(known.few.ops[edge.source].name), source.spot, grid)
    if edge.bytes is not None and larger is not None:
        found = proportion(edge.bytes, larger, (known.patterns.grid, known.grid, grid), of_task=of_task)
        if found is not None:
            return edge.bytes * found[2] // found[0]
    raise NotAlikeError(f"the size of {_text(edge.tensor)} does not grow in proportion to their number")


def _listed(kinds: StepKinds) -> tuple[list[tuple[str, str]], set[tuple[object, ...]]]:
    """Return the names and devices of ops, in order, and all tensors, with sizes if they are sent."""
    numbers = Numbers(kinds.grid)

    def named(op: StepOpKind, host: int, group: int) -> tuple[str, str]:
        member = op.member(host, group)
        return op.name.at(numbers, *member), op.device.at(numbers, *member)

    ops = [named(*each) for each in repeated(((op.spot, op) for op in kinds.ops), kinds.grid)]
    edges = set[tuple[object, ...]]()
    for each in kinds.edges:
        for member in each.members(kinds.grid):
            (source, here), (target, there) = (
                named(kinds.ops[end], *member) for end in (each.source, each.target)
            )
            size = each.bytes if here != there else None
            edges.add((source, target, each.tensor.at(numbers, *member), size, each.handle))
    return ops, edges
