"""The functions of `import tfdeploy` that look at placements; `tfdeploy/api.py` has those that train."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from tfdeploy.api import as_python_warning as warn_of
from tfdeploy.api import compile as compile_spec
from tfdeploy.api import settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.many_clones import ManyClones
    from compiler.kinds.kind_map import AnyMap, KindMap
    from compiler.kinds.layout import Extras
    from compiler.mapping.explanation import Explanation
    from compiler.mapping.records import MapTime, PlacementMap
    from compiler.plan import Plan
    from compiler.report.compare import Comparison
    from compiler.step.read.memory import StepMemory
    from compiler.time.forecast import StepForecast
    from compiler.time.measured_trace import RunTrace
    from compiler.time.work import StepWork
    from dsl.ir import Spec

    Placed: TypeAlias = Spec | CompiledGraph | PlacementMap | KindMap


def plan(spec: Spec, *, emulate: bool = False, verbose: bool = False) -> Plan:
    """Return what is decided about a spec before its graph is built: devices, towers and layers.

    TensorFlow is not started, unless the spec leaves the number of GPUs to this machine.

    Args:
        spec: The spec, as `load` returns it.
        emulate: Whether every declared device is a logical CPU of this process.
        verbose: Whether TensorFlow's own messages are shown.

    Raises:
        SpecError: If the spec does not fit its devices.
    """
    spec = settled(spec)
    from tfdeploy.runtime.plans import plan_of

    return plan_of(spec, emulate=emulate, verbose=verbose)


def why(subject: Spec | CompiledGraph, name: str) -> tuple[Explanation, ...]:
    """Return what placed an op or a variable: the rule or default, and the rules that it overrode.

    Args:
        subject: A graph, or a spec. The graph of many clones that are alike is not built.
        name: The name of an op, a variable or a layer, a glob such as `clone_*/conv1/*`, or a message of
            TensorFlow that names ops.

    Returns:
        An explanation of each thing that `name` names.

    Raises:
        LookupError: If it names nothing; the message has the nearest names.
        SpecError: If the graph cannot be built.
    """
    from compiler.kinds.grid import NotAlikeError
    from dsl.ir import Spec
    from tfdeploy.runtime.many_clones import explain_by_kinds, explain_graph

    many = _many_of(subject) if isinstance(subject, Spec) else None
    if many is not None:
        with suppress(NotAlikeError):  # the graph of all clones shows what they do not have in common
            return explain_by_kinds(many, name).found
    return explain_graph(_graph_of(subject), name).found


def diff(before: Placed, after: Placed) -> Comparison:
    """Return what two placements do differently: ops, variables, and the bytes of devices and links.

    Args:
        before: A placement map, or a graph or a spec, whose map is made.
        after: The same for the other one.

    Raises:
        SpecError: If a graph cannot be built.
    """
    from compiler.report.compare import compare

    return compare(map_of(before), map_of(after))


def to_html(subject: Placed | Comparison) -> str:
    """Return the page that `tfdeploy plan --html` writes: the placement map with the lines of the spec.

    If the time of a step can be forecast, as in `forecast`, the page has its timeline. The page of what
    `diff` has found is that of `tfdeploy diff --html`, with both placements side by side.

    Args:
        subject: A placement map, or a graph or a spec, whose map is made, or a comparison. For a map and a
            comparison, the lines are shown if the file of the spec has not changed.

    Raises:
        SpecError: If the graph cannot be built.
    """
    from compiler.kinds.kind_map import KindMap
    from compiler.kinds.layout import Extras
    from compiler.mapping.records import PlacementMap
    from compiler.report.compare import Comparison
    from compiler.report.page.data import texts_of, texts_on_disk
    from dsl.ir import Spec

    if isinstance(subject, Comparison):
        return _page_of_comparison(subject)
    if isinstance(subject, Spec):
        many = _many_of(subject, extras=Extras(costs=True))
        if many is not None:
            texts = texts_of(subject)
            return plan_page(many.placement, texts, many.plan, time=many.time, work=many.work)
    if isinstance(subject, PlacementMap | KindMap):
        return plan_page(subject, texts_on_disk(subject))
    graph = _graph_of(subject)
    from compiler.conditions import time_of

    found = time_of(graph)
    placement = _placement_of(graph, None if found is None else found.for_map())
    return plan_page(placement, texts_of(graph.plan.spec), graph.plan, graph, found)


def forecast(
    subject: Spec | CompiledGraph, profile: str | os.PathLike[str] | None = None
) -> StepForecast | None:
    """Return how long a step takes, how busy devices and links are, and the critical path.

    Args:
        subject: A graph, or a spec. The graph of many clones that are alike is not built.
        profile: The file of a profile that `tfdeploy calibrate` has written. By default it is the one beside
            the spec, if there is one.

    Returns:
        The forecast, or None without a profile if the spec does not name its hardware (`devices.kind`). Of
        many tasks with clones that are alike it has the first and the last one, which stands for the others.

    Raises:
        SpecError: If the graph cannot be built.
        RunError: If the file is no profile.
    """
    from dsl.ir import Spec

    file = os.fspath(profile) if profile is not None else None
    many = _many_of(subject, file) if isinstance(subject, Spec) else None
    if many is not None:
        return many.time
    graph = _graph_of(subject)
    from compiler.conditions import time_of

    return time_of(graph, file)


@overload
def map_placement(subject: Spec) -> AnyMap: ...


@overload
def map_placement(
    subject: CompiledGraph,
    assigned: Mapping[str, str] | None = None,
    memory: Mapping[str, StepMemory] | None = None,
    time: MapTime | None = None,
    *,
    batch: Mapping[str, Any] | None = None,
) -> PlacementMap: ...


def map_placement(
    subject: Spec | CompiledGraph,
    assigned: Mapping[str, str] | None = None,
    memory: Mapping[str, StepMemory] | None = None,
    time: MapTime | None = None,
    *,
    batch: Mapping[str, Any] | None = None,
) -> AnyMap:
    """Return the placement map: that of a spec as `tfdeploy plan` shows it, or that of a graph.

    Args:
        subject: A graph, or a spec. The map of a spec has forecasts of the memory and the time of a step; if
            it has many clones that are alike, it is by kinds, and their graph is not built.
        assigned: For a graph: the full name of the device on which each op ran, by op name. Ops that it lacks
            have no `assigned` device in the map.
        memory: For a graph: the peak of a step by the device's name in specs. Without it the map has no
            memory of a step.
        time: For a graph: the forecast of the time of a step, if there is one.
        batch: For a graph: the examples of a step of all towers, an array for each input. A step is run on a
            copy of the graph, and transfers have the bytes of this step, also of rows that are looked up in
            tables in pieces. If each worker has a graph of its own, the steps of all are run on that copy.

    Raises:
        SpecError: If the graph of a spec cannot be built.
    """
    from dsl.ir import Spec

    if isinstance(subject, Spec):
        return map_of(subject)
    from compiler.graph.inspect.placement_map import map_placement as map_of_graph

    return map_of_graph(_graph_of(subject), assigned, memory, time, batch=batch)


def read_map(path: str | os.PathLike[str]) -> AnyMap:
    """Return the placement map in a file: with records of each clone, or by kinds of clones that are alike.

    Args:
        path: A `placement.json`, or what `tfdeploy plan --json` has printed.

    Raises:
        ValueError: If it is no placement map, or of a version that is not known.
        OSError: If the file cannot be read.
    """
    from compiler.kinds import reading

    return reading.read_map(os.fspath(path))


def expand(placement: AnyMap) -> PlacementMap:
    """Return a placement map with the records of each clone.

    Args:
        placement: The map. If it has these records, it is returned as it is.
    """
    return placement.expanded()


def map_of(subject: Placed) -> AnyMap:
    """Return the map itself, or that of a graph or a spec, with forecasts of a step's memory and time.

    The map of many clones that are alike is by kinds.
    """
    from compiler.kinds.kind_map import KindMap
    from compiler.mapping.records import PlacementMap
    from dsl.ir import Spec

    if isinstance(subject, PlacementMap | KindMap):
        return subject
    many = _many_of(subject) if isinstance(subject, Spec) else None
    if many is not None:
        return many.placement
    graph = _graph_of(subject)
    from compiler.conditions import map_time

    return _placement_of(graph, map_time(graph))


def _many_of(spec: Spec, profile: str | None = None, extras: Extras | None = None) -> ManyClones | None:
    """Return the map of many clones that are alike, or None if the graph of all has to be built.

    Args:
        spec: The spec.
        profile: The file of a profile; by default the one beside the spec, if there is one.
        extras: What is wanted beside the map.
    """
    from compiler.conditions import check_expectations
    from compiler.kinds.layout import NO_EXTRAS
    from dsl.diagnostics import SpecError
    from tfdeploy.progress import without_progress
    from tfdeploy.runtime.many_clones import map_by_kinds

    with without_progress():
        found = map_by_kinds(settled(spec), profile=profile, extras=extras or NO_EXTRAS)
    if isinstance(found, str):
        return None
    for each in found.warnings:
        warn_of(each)
    wrong = check_expectations(found.plan, found.placement)
    if wrong:
        raise SpecError(wrong)
    return found


def _page_of_comparison(found: Comparison) -> str:
    """Return the page of two placements side by side; if both specs have one name, words distinguish them."""
    from compiler.report.page.data import Side, lines_of, texts_on_disk
    from compiler.report.page.html import diff_page

    if found.maps is None:
        raise ValueError("the comparison has no placement maps; `tfdeploy.diff` returns one that has them")
    same = found.spec_before.path == found.spec_after.path
    sides = [
        Side(
            f"{each.spec.path}, {word}" if same else each.spec.path,
            each,
            lines_of(each, texts_on_disk(each)),
        )
        for each, word in zip(found.maps, ("before", "after"), strict=True)
    ]
    return diff_page(sides[0], sides[1], found)


def _placement_of(graph: CompiledGraph, time: MapTime | None) -> PlacementMap:
    """Return the map of a graph with a forecast of a step's memory, and with that of its time, if given."""
    from compiler.graph.inspect.placement_map import map_placement
    from compiler.step.read.memory import forecast_memory

    return map_placement(graph, None, forecast_memory(graph.sized_step), time)


def _graph_of(subject: Spec | CompiledGraph) -> CompiledGraph:
    """Return a graph itself, or that of a spec; raises TypeError if it is neither."""
    from compiler.graph.compiled import CompiledGraph

    return subject if isinstance(subject, CompiledGraph) else compile_spec(subject)


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
    from compiler.report.page.data import lines_of, places_of
    from compiler.report.page.html import html_page
    from compiler.report.page.tree import Details

    if plan is None:
        return html_page(placement, lines_of(placement, texts))
    model = plan.model
    lines = lines_of(placement, texts, places_of(model))
    work = time.work if time is not None else work
    if work is None and compiled is not None:
        from compiler.step.read.work import timed_step

        work = timed_step(compiled.sized_step)
    details = Details(model=model, work=work, time=time, trace=trace)
    return html_page(placement, lines, details)
