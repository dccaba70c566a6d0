"""Make the placement map of a compiled graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.inspect.mapping.given_batch import sizes_for
from compiler.mapping.records import MapTransfer, PlacementMap
from compiler.mapping.step_time import MapTime
from compiler.step.read.map import Found, map_step
from compiler.step.read.memory import StepMemory

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


def map_placement(
    compiled: CompiledGraph,
    assigned: Mapping[str, str] | None = None,
    memory: Mapping[str, StepMemory] | None = None,
    time: MapTime | None = None,
    *,
    batch: Mapping[str, Any] | None = None,
    sent: tuple[MapTransfer, ...] | None = None,
) -> PlacementMap:
    """Return the placement map of a compiled graph.

    Args:
        compiled: The graph.
        assigned: The full name of the device on which each op ran, by op name, as `read_assigned` returns it.
            Ops that it lacks have no `assigned` device in the map.
        memory: The peak of a step by the device's name in specs, as `forecast_memory` returns it.
            Without it the map has no memory of a step.
        time: The forecast of the time of a step, if there is one.
        batch: The examples of a step of all towers, an array for each input. A step is run on a copy of the
            graph, and transfers have the bytes of this step, also of rows that are looked up in tables in
            pieces. If each worker has a graph of its own, the steps of all workers are run on that copy.
        sent: The transfers of the map, if they are already known; by default they are those of a step of all
            workers.
    """
    sizes = None if batch is None else sizes_for(compiled, batch)
    return map_step(compiled.step, tf.__version__, Found(assigned or {}, memory or {}, time, sizes, sent))
