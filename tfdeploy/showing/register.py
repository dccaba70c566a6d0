"""Registers the summaries of all records, with `dsl.shown.summary_of`."""

from __future__ import annotations

from compiler.kinds.records.kind_map import KindMap
from compiler.mapping.explanation import Explanation
from compiler.mapping.records import PlacementMap
from compiler.plan import Plan
from compiler.report.comparison.compare import Comparison
from dsl.ir import Spec
from dsl.shown import summary_of
from tfdeploy.runtime.records.result import Result
from tfdeploy.showing import comparison, explanation, placement, plan, result, spec


def register_summaries() -> None:
    """Let records show themselves; a second call changes nothing."""
    summary_of.register(Spec, spec.summary)
    summary_of.register(Plan, plan.summary)
    summary_of.register(PlacementMap, placement.summary)
    summary_of.register(KindMap, placement.summary)
    summary_of.register(Comparison, comparison.summary)
    summary_of.register(Explanation, explanation.summary)
    summary_of.register(Result, result.summary)
