"""Specs compiled to graphs and maps, as far as a test needs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.tower.traces import Traces
from compiler.graph.user_code import KERAS_SETTINGS, set_keras
from compiler.mapping.records import PlacementMap
from compiler.pipeline import make_plan
from dsl import ir


def graph_of(
    spec: ir.Spec, *, base: str = ".", seed: int | None = None, traces: Traces | None = None, **planned: Any
) -> CompiledGraph:
    """Return the graph of a spec; `planned` is what its plan is made with, such as `emulate` and `worker`."""
    return compile_graph(make_plan(spec, **planned), base=base, seed=seed, traces=traces)


def map_of(spec: ir.Spec, **made: Any) -> PlacementMap:
    """Return the placement map of the graph of a spec, which is made as by `graph_of`."""
    return map_placement(graph_of(spec, **made))


@contextmanager
def unusual_keras() -> Iterator[None]:
    """Set what Keras has for the process to what is not usual, and see that it stays so."""
    usual = settings_of_keras()
    unusual = {
        "floatx": "float64",
        "epsilon": 0.1,
        "image_data_format": "channels_first",
        "dtype_policy": "mixed_float16",
    }
    set_keras(unusual)
    try:
        yield
        assert settings_of_keras() == unusual
    finally:
        set_keras(usual)


def settings_of_keras() -> dict[str, Any]:
    """Return what Keras has for the process."""
    found = {name: getattr(keras.config, name)() for name in KERAS_SETTINGS}
    return {**found, "dtype_policy": found["dtype_policy"].name}
