"""The ops of a map as a tree of names for the page, with numbers for everything that recurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from compiler.mapping.records import MapOp, PlacementMap, RuleRef
from compiler.report.page.data.clone_families import Family, Spot, families_of
from compiler.report.page.data.costs import FREE, Cost
from compiler.report.page.data.numbers import Numbers

NONE = -1
FAMILY = -2
"""The number of the clone of an op that the clones of a family share."""


@define
class Tables:
    """What the tree refers to by number.

    Attributes:
        places: The devices.
        names: The parts of the names of ops.
        kinds: What ops have in common: type, role, clone and the number of the spot.
        rules: What placed ops: the reason, the text of the rule, and its file, line and column.
        costs: What ops cost.
        files: The names of the files of the spec.
        spots: The devices of ops: pairs of the device that was asked for and the one on which the op ran, one
            pair for an op by itself, and one for each clone of a family.
    """

    places: Numbers
    names: Numbers = field(factory=Numbers)
    kinds: Numbers = field(factory=Numbers)
    rules: Numbers = field(factory=Numbers)
    costs: Numbers = field(factory=Numbers)
    files: Numbers = field(factory=Numbers)
    spots: Numbers = field(factory=Numbers)

    def pair(self, spot: Spot) -> tuple[int, int]:
        """Return the numbers of a device and of that on which the op ran."""
        requested, assigned = spot
        return self.places.of(requested), NONE if assigned is None else self.places.of(assigned)

    def kind(self, op: MapOp) -> int:
        """Return the number of what an op by itself has in common with others."""
        clone = NONE if op.clone is None else op.clone
        spot = self.spots.of((NONE, NONE, self.pair((op.requested, op.assigned))))
        return self.kinds.of((op.type, op.role, clone, spot))

    def rule(self, rule: RuleRef) -> int:
        """Return the number of a rule that placed an op."""
        file = NONE if rule.file is None else self.files.of(rule.file)
        return self.rules.of(
            (rule.reason, rule.text, file, rule.line or 0, rule.column or 0, rule.decided_by or "")
        )

    def spot_values(self) -> list[list[Any]]:
        """Return the pairs of each spot."""
        return [list(pairs) for _family, _local, *pairs in self.spots.values()]


@define
class Branch:
    """Nested lists: `[name, child...]` for a scope, `[name, kind, rule, cost, child...]` for an op.

    Attributes:
        tables: The tables that the lists refer to.
        root: The outermost scope.
        nodes: All scopes and ops by their paths.
    """

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

    def put(self, path: str, kind: int, rule: RuleRef, cost: Cost) -> None:
        """Add an op: its path, the number of its kind, what placed it, and what it costs.

        Args:
            path: The name of the op inside this branch.
            kind: The number of the op's kind in the tables of the page.
            rule: What placed the op.
            cost: What the op holds and costs in a step.
        """
        tables = self.tables
        self.node(path)[1:1] = [kind, tables.rule(rule), tables.costs.of(cost)]


def tree_data(
    placement: PlacementMap, tables: Tables, costs: Mapping[str, Cost]
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the tree, and the families of clones that are alike.

    Args:
        placement: The map.
        tables: The tables, which the tree is written into.
        costs: What ops cost, by their names.

    Returns:
        The tree, in which `{"family": number}` stands for a family, and the families: the numbers of their
        `clones`, a `label` for all of them, the `tree` of one of them and the `spots` in it.
    """
    families = families_of(placement, costs)
    number_of = {clone: number for number, each in enumerate(families) for clone in each.clones}
    scopes = {each.index: each.scope for each in placement.clones}
    branch, met = Branch(tables), set()
    for op in placement.ops:
        number = number_of.get(op.clone) if op.clone is not None else None
        if number is None or not op.name.startswith(f"{scopes[op.clone or 0]}/"):
            branch.put(op.name, tables.kind(op), op.rule, costs.get(op.name, FREE))
        elif number not in met:
            met.add(number)
            branch.root.append({"family": number})
    return branch.root, [_family(each, number, tables) for number, each in enumerate(families)]


def _family(family: Family, number: int, tables: Tables) -> dict[str, Any]:
    branch = Branch(tables)
    own = zip(*family.spots, strict=True)  # the spots with the same number in each clone
    spots = [tables.spots.of((number, local, *map(tables.pair, pairs))) for local, pairs in enumerate(own)]
    for op, inner, local, cost in zip(family.ops, family.inner, family.locals, family.costs, strict=True):
        kind = tables.kinds.of((op.type, op.role, FAMILY, spots[local]))
        branch.put(inner, kind, op.rule, cost)
    return {"clones": family.clones, "label": family.label, "tree": branch.root, "spots": spots}
