"""Gradient aggregation: one algorithm per file, one table of all.

The towers' losses are scaled by their share before differentiation, so that aggregating is always a sum.
"""

from __future__ import annotations

from compiler.graph.aggregate.add_n import add_n
from compiler.graph.aggregate.base import Aggregation

AGGREGATIONS: dict[str, Aggregation] = {"add_n": add_n}

__all__ = ["AGGREGATIONS", "Aggregation"]
