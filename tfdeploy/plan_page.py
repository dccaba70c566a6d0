"""The page of a plan, with all that its graph says about a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.graph.compiled import CompiledGraph
    from compiler.kinds.records.kind_map import AnyMap
    from compiler.plan import Plan
    from compiler.time.forecast import StepForecast
    from compiler.time.measured_trace import RunTrace
    from compiler.time.work import StepWork


def plan_page(
    placement: AnyMap,
    texts: Mapping[str, str],
    plan: Plan | None = None,
    compiled: CompiledGraph | None = None,
    time: StepForecast | None = None,
    trace: RunTrace | None = None,
    *,
    work: StepWork | None = None,
) -> str:
    """Return the page of a placement map.

    Args:
        placement: The map.
        texts: The texts of the spec by their files.
        plan: The plan that the map was made from; without it, the page has no model.
        compiled: The graph that the map was made from, if it was. It gives the costs of ops.
        time: The forecast of the step.
        trace: The trace of a run, which is shown beneath the timeline of the forecast.
        work: The costs of ops, if there is no graph. Without any of these and a forecast, the page has none.
    """
    from compiler.report.page.data.model_data import places_of
    from compiler.report.page.data.spec_lines import lines_of
    from compiler.report.page.details import Details
    from compiler.report.page.html import html_page

    if plan is None:
        return html_page(placement, lines_of(placement, texts))
    model = plan.model
    lines = lines_of(placement, texts, places_of(model))
    work = time.work if time is not None else work
    if work is None and compiled is not None:
        from compiler.graph.forecasts.assumed_sizes import with_assumed_sizes
        from compiler.step.read.work import timed_step

        work = timed_step(with_assumed_sizes(compiled).step)
    details = Details(model=model, work=work, time=time, trace=trace)
    return html_page(placement, lines, details)
