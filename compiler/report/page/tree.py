"""The ops of a map as a tree for the page, and what is known of a plan beyond its map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from compiler.figures import gathered
from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import Counted, Placed, RuleRef
from compiler.model.graph import ModelGraph
from compiler.report.scopes import FOLD_FROM, clones_label
from compiler.time.forecast import StepForecast
from compiler.time.measured_trace import RunTrace
from compiler.time.work import StepWork


@frozen
class Details:
    """What is known of a plan beyond its map; a map that was read from a file has nothing of it."""

    model: ModelGraph | None = field(default=None, repr=False)
    # The ops of a step with the bytes and floating point operations of each.
    work: StepWork | None = field(default=None, repr=False)
    time: StepForecast | None = field(default=None, repr=False)
    # The trace of a run, which is shown beneath the timeline.
    trace: RunTrace | None = field(default=None, repr=False)


# --- numbers for what recurs in the data of the page ------------------------------------------------------


NONE = -1
"""The number of what is not there."""


@define
class Numbers:
    """Numbers for values, in the order in which they are first seen."""

    given: dict[Hashable, int] = field(factory=dict)

    def of(self, value: Hashable) -> int:
        """Return the number of `value`."""
        return self.given.setdefault(value, len(self.given))

    def values(self) -> list[Any]:
        """Return the values in the order of their numbers."""
        return list(self.given)


@define
class Tables:
    """What the tree refers to by number."""

    places: Numbers
    names: Numbers = field(factory=Numbers)  # the parts of the names of ops
    # What ops have in common: type, role, clone and the number of the spot.
    kinds: Numbers = field(factory=Numbers)
    # What placed ops: the reason, the text of the rule, and its file, line and column.
    rules: Numbers = field(factory=Numbers)
    costs: Numbers = field(factory=Numbers)
    files: Numbers = field(factory=Numbers)
    # The devices of ops: pairs of the device that was asked for and the one on which the op ran, one pair for
    # an op by itself, and one for each clone of a family.
    spots: Numbers = field(factory=Numbers)

    def pair(self, placed: Placed) -> tuple[int, int]:
        """Return the numbers of a device and of that on which the op ran."""
        requested, assigned = placed
        return self.places.of(requested), NONE if assigned is None else self.places.of(assigned)

    def rule(self, rule: RuleRef) -> int:
        """Return the number of a rule that placed an op."""
        file = NONE if rule.file is None else self.files.of(rule.file)
        return self.rules.of(
            (rule.reason, rule.text, file, rule.line or 0, rule.column or 0, rule.decided_by or "")
        )

    def spot_values(self) -> list[list[Any]]:
        """Return the pairs of each spot."""
        return [list(pairs) for _family, _local, *pairs in self.spots.values()]


# --- the ops of a map as a tree of names for the page, with numbers for everything that recurs ------------
#
# Clones that are alike, with equal ops for equal reasons, each on its own devices, are a family. The page
# has their ops once.


FAMILY = -2
"""The number of the clone of an op that the clones of a family share."""


# --- what ops cost ----------------------------------------------------------------------------------------

Cost: TypeAlias = tuple[int, int, int, float]
"""The bytes of the variable that an op holds, and what the op takes in a step: FLOPs, the bytes that it reads
and writes, and microseconds by the forecast."""


def measures(details: Details) -> list[str]:
    """Return what the table of scopes can show: numbers of ops, and the parts of a cost that are known."""
    known = ["ops", "held"]
    if details.work is not None or details.time is not None:
        known += ["flops", "bytes"]
    return known if details.time is None else [*known, "time"]


def cost_of(placement: AnyMap, details: Details) -> Callable[[Counted], Cost]:
    """Return what says how much an op holds and costs; of ops that are alike, the last stands for all."""
    held = placement.held()
    work = details.work or (details.time.work if details.time is not None else None)
    ops = {each.name: each for each in work.ops} if work else {}
    microseconds = _microseconds(details)

    def cost(counted: Counted) -> Cost:
        size, name = held.get(counted.op.name, 0), placement.last_name(counted)
        op = ops.get(name)
        if op is None:
            return (size, 0, 0, 0.0)
        return (size, op.flops * op.times, op.bytes * op.times, round(microseconds.get(name, 0.0), 3))

    return cost


def _microseconds(details: Details) -> Mapping[str, float]:
    found: dict[str, float] = defaultdict(float)
    if details.time is not None:
        simulated, ops = details.time.simulated, details.time.work.ops
        for bar in simulated.bars:
            found[ops[bar.op].name] += (bar.end - bar.start) * 1e6 / simulated.updates
    return found


# --- the tree ---------------------------------------------------------------------------------------------


@define
class _Branch:
    """Nested lists: `[name, child...]` for a scope, `[name, kind, rule, cost, child...]` for an op."""

    tables: Tables
    root: list[Any] = field(init=False)
    nodes: dict[str, list[Any]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.root = [self.tables.names.of("")]
        self.nodes = {"": self.root}

    def node(self, path: str) -> list[Any]:
        """Return the list at a path, with those around it."""
        if path not in self.nodes:
            outer, _, name = path.rpartition("/")
            self.nodes[path] = [self.tables.names.of(name)]
            self.node(outer).append(self.nodes[path])
        return self.nodes[path]

    def put(self, path: str, kind: tuple[str, str, int, int], rule: RuleRef, cost: Cost) -> None:
        """Add an op: its path, what it has in common with others, what placed it, and what it costs."""
        tables = self.tables
        number = tables.kinds.of(kind)
        self.node(path)[1:1] = [number, tables.rule(rule), tables.costs.of(cost)]


@define
class _Inside:
    """The ops in the scope of a clone, or of clones of one kind."""

    ops: list[Counted] = field(factory=list)
    costs: list[Cost] = field(factory=list)
    locals: list[int] = field(factory=list)  # for each of them, the number of its spot among those of a clone
    # For each of them, a number for what it has in common with the same ops of equal clones.
    look: list[int] = field(factory=list)
    spots: Numbers = field(factory=Numbers)  # the numbers of spots by their devices
    first: list[Counted] = field(factory=list)  # the first op on each spot

    def read(self, op: Counted, cost: Cost, looks: Numbers) -> None:
        """Add an op."""
        like, (*fixed, _) = op.op, cost  # the time of an op depends on what runs beside it
        local = self.spots.of((like.requested, like.assigned))
        if local == len(self.first):
            self.first.append(op)
        moved = like.assigned is not None and like.assigned != like.requested
        device = local if op.of is None else like.requested
        self.ops.append(op)
        self.costs.append(cost)
        self.locals.append(local)
        self.look.append(looks.of((op.inner, like.type, like.role, like.rule, device, moved, *fixed)))


def tree_data(placement: AnyMap, tables: Tables, details: Details) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the tree, and the families of clones that are alike.

    What is there once for each task or clone, outside of the clones, is one op at several places.

    Returns:
        The tree, in which `{"family": number}` stands for a family, and the families: the numbers of their
        `clones`, a `label` for all of them, the `tree` of one of them and the `spots` in it.
    """
    cost, looks = cost_of(placement, details), Numbers()
    ops = [(op, cost(op)) for op in placement.counted()]
    inside: dict[int, _Inside] = defaultdict(_Inside)
    for op, costs in ops:
        if (tower := _tower(op)) is not None:
            inside[tower].read(op, costs, looks)
    groups = _alike(placement, inside)
    number_of = {tower: number for number, group in enumerate(groups) for tower in group}
    branch, met = _Branch(tables), set()
    for op, costs in ops:
        tower = _tower(op)
        number = None if tower is None else number_of.get(tower)
        if number is None:
            _put_single(placement, branch, op, costs)
        elif number not in met:
            met.add(number)
            branch.root.append({"family": number})
    families = [
        _family(placement, tables, number, group, [inside[each] for each in group])
        for number, group in enumerate(groups)
    ]
    return branch.root, families


def _tower(op: Counted) -> int | None:
    """Return what says of which clones an op is; what feeds a clone is listed by itself, if it is no kind."""
    return None if op.of is None and op.op.clone is None else op.tower


def _alike(placement: AnyMap, inside: Mapping[int, _Inside]) -> list[list[int]]:
    """Return the families, if there are so many clones that equal ones are shown as one."""
    if len(placement.clones) < FOLD_FROM:
        return []
    alike = gathered((tuple(each.look), tower) for tower, each in inside.items())
    return [
        group for group in alike.values() if sum(len(placement.clones_of_tower(tower)) for tower in group) > 1
    ]


def _put_single(placement: AnyMap, branch: _Branch, op: Counted, cost: Cost) -> None:
    tables = branch.tables
    spot = tables.spots.of((NONE, NONE, *(tables.pair(each) for _, each in placement.places(op))))
    clone = op.op.clone if op.op.clone is not None and op.count == 1 else NONE
    path = placement.ranged(op, op.op.name)
    if op.of is not None and op.tower is not None:
        path = f"{clones_label(placement.clones_of_tower(op.tower))}/{placement.ranged(op, op.inner)}"
    branch.put(path, (op.op.type, op.op.role, clone, spot), placement.rule_of(op), cost)


def _family(
    placement: AnyMap, tables: Tables, number: int, group: Sequence[int], inside: Sequence[_Inside]
) -> dict[str, Any]:
    """Return a family of clones: what is in the scope of each is equal."""
    first, branch, spots = inside[0], _Branch(tables), []
    for local, on_spot in enumerate(zip(*(each.first for each in inside), strict=True)):
        places = sorted(place for op in on_spot for place in placement.places(op))
        spots.append(tables.spots.of((number, local, *(tables.pair(each) for _, each in places))))
    costs = zip(*(each.costs for each in inside), strict=True)
    counts = [each.ops[0].count for each in inside]
    for op, local, own in zip(first.ops, first.locals, costs, strict=True):
        kind = (op.op.type, op.op.role, FAMILY, spots[local])
        branch.put(placement.ranged(op, op.inner), kind, placement.rule_of(op), _mean(own, counts))
    clones = sorted(clone for tower in group for clone in placement.clones_of_tower(tower))
    return {"clones": clones, "label": clones_label(clones), "tree": branch.root, "spots": spots}


def _mean(costs: Sequence[Cost], counts: Sequence[int]) -> Cost:
    """Return the cost of the same op of clones that are alike. Its time is their mean."""
    held, flops, size, _ = costs[0]
    time = sum(each[3] * count for each, count in zip(costs, counts, strict=True))
    return held, flops, size, round(time / sum(counts), 3)
