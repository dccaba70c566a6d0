"""The ops of a map by kinds for the page: clones that are alike as families, and what recurs beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from compiler.kinds.expanding.counted import Counted, counted_ops
from compiler.kinds.expanding.expand import rule_at
from compiler.kinds.records.kind_map import KindMap
from compiler.kinds.records.sets import Kinds
from compiler.mapping.records import RuleRef
from compiler.report.counted_scopes import KindNames
from compiler.report.page.data.costs import FREE, Cost, OfKind
from compiler.report.page.data.tree import FAMILY, NONE, Branch, Tables
from dsl.gathering import gathered


def kinds_data(
    placement: KindMap, tables: Tables, costs: Mapping[OfKind, Cost]
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the tree, and the families of clones that are alike; both are as `tree_data` returns them.

    What is there once for each task or clone, outside of the clones, is one op at several places.

    Args:
        placement: The map.
        tables: The tables, which the tree is written into.
        costs: What the ops of each kind cost.
    """
    return _Writer(placement, tables, costs).data()


@define
class _Writer:
    placement: KindMap
    tables: Tables
    costs: Mapping[OfKind, Cost]
    kinds: Kinds = field(init=False)
    names: KindNames = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = KindNames(self.placement)
        self.kinds = self.names.kinds

    def data(self) -> tuple[list[Any], list[dict[str, Any]]]:
        inside: dict[int, list[Counted]] = {of: [] for of in self.names.scopes}
        ops = list(counted_ops(self.placement))
        for op in ops:
            if self._is_of_clone(op):
                inside[op.of or 0].append(op)
        alike = gathered((tuple(self._look(each) for each in own), of) for of, own in inside.items())
        kinds = self.placement.kinds
        groups = [group for group in alike.values() if sum(kinds[of].count for of in group) > 1]
        number_of = {of: number for number, group in enumerate(groups) for of in group}
        branch, met = Branch(self.tables), set()
        for op in ops:
            number = number_of.get(op.of) if op.of is not None and self._is_of_clone(op) else None
            if number is None:
                self._put_single(branch, op)
            elif number not in met:
                met.add(number)
                branch.root.append({"family": number})
        families = [
            self._family(number, group, [inside[of] for of in group]) for number, group in enumerate(groups)
        ]
        return branch.root, families

    def _is_of_clone(self, op: Counted) -> bool:
        scope = self.names.scopes.get(op.of) if op.of is not None else None
        return scope is not None and op.op.name.startswith(scope)

    def _look(self, op: Counted) -> tuple[object, ...]:
        each, (*fixed, _) = op.op, self._cost(op)  # the time of an op depends on what runs beside it
        return (each.name, each.type, each.role, each.rule, each.requested, *fixed)

    def _cost(self, op: Counted) -> Cost:
        return self.costs.get((op.op.name, op.of or 0), FREE)

    def _mean(self, alike: Sequence[Counted]) -> Cost:
        """Return the cost of the same op of clones that are alike. Its time is their mean."""
        held, flops, size, _ = self._cost(alike[0])
        time = sum(self._cost(each)[3] * each.count for each in alike)
        return held, flops, size, round(time / sum(each.count for each in alike), 3)

    def _put_single(self, branch: Branch, op: Counted) -> None:
        assert op.of is not None
        pairs = [self._pair(op.op.requested, *member) for member in self.kinds.members(op.of)]
        clone = op.op.clone if op.op.clone is not None and op.count == 1 else NONE
        spot = self.tables.spots.of((NONE, NONE, *pairs))
        kind = self.tables.kinds.of((op.op.type, op.op.role, clone, spot))
        # A clone by itself may have the names of others, and be no family with them because of its costs.
        own = f"{self.names.label([op.of])}/{self.names.inner(op)}" if self._is_of_clone(op) else None
        branch.put(own or self.names.of(op), kind, self._rule(op), self._cost(op))

    def _rule(self, op: Counted) -> RuleRef:
        return rule_at(op.op.rule, self.kinds, *next(self.kinds.members(op.of or 0)))

    def _pair(self, device: str, host: int, group: int) -> tuple[int, int]:
        return self.tables.pair((self.kinds.template(device).at(self.kinds.numbers, host, group), None))

    def _family(self, number: int, group: list[int], inside: list[list[Counted]]) -> dict[str, Any]:
        """Return a family of clones.

        Args:
            number: Its number.
            group: The kinds of its clones.
            inside: The ops of each kind, in the same order.
        """
        ops, grid = inside[0], self.kinds.numbers.grid
        members = sorted(member for of in group for member in self.kinds.members(of))
        devices = list(dict.fromkeys(op.op.requested for op in ops))
        spots = {
            device: self.tables.spots.of(
                (number, local, *(self._pair(device, *member) for member in members))
            )
            for local, device in enumerate(devices)
        }
        label = self.names.label(group)
        branch = Branch(self.tables)
        for alike in zip(*inside, strict=True):
            op = alike[0]
            kind = self.tables.kinds.of((op.op.type, op.op.role, FAMILY, spots[op.op.requested]))
            branch.put(self.names.inner(op), kind, self._rule(op), self._mean(alike))
        return {
            "clones": [grid.number(*member) for member in members],
            "label": label,
            "tree": branch.root,
            "spots": [spots[device] for device in devices],
        }
