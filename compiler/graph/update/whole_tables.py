"""Tables of which a batch uses few rows, but which every update changes as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from compiler.graph.optimizers import UpdateRules
from compiler.graph.tower.template import WeightInfo


def tables_dominate(
    weights: Mapping[str, WeightInfo], tables: Collection[str], rules: UpdateRules, examples: int
) -> bool:
    """Return whether a step spends more time on updates of whole tables than in its towers.

    An update goes through its table once, whatever the batch is. A tower goes through each of its other
    weights for every example, so bytes of tables are compared with bytes of other weights times examples.
    """
    updated = [weights[each] for each in tables if not rules.of(each).by_rows]
    others = sum(each.bytes for each in weights.values() if each.name not in tables)
    return sum(each.bytes for each in updated) > others * examples
