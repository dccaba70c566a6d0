"""Specs compiled to graphs and maps, as far as a test needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compiler.graph.build import compile_graph
from compiler.graph.inspect.placement_map import map_placement
from compiler.pipeline import make_plan

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.tower.traces import Traces
    from compiler.mapping.records import PlacementMap
    from dsl import ir


def graph_of(
    spec: ir.Spec, *, base: str = ".", seed: int | None = None, traces: Traces | None = None, **planned: Any
) -> CompiledGraph:
    """Return the graph of a spec; `planned` is what its plan is made with, such as `emulate` and `worker`."""
    return compile_graph(make_plan(spec, **planned), base=base, seed=seed, traces=traces)


def map_of(spec: ir.Spec, **made: Any) -> PlacementMap:
    """Return the placement map of the graph of a spec, which is made as by `graph_of`."""
    return map_placement(graph_of(spec, **made))
