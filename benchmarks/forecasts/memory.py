"""Forecasts of the peak memory of a step, compared with what the allocator counts on CPUs.

It is run as `python -m benchmarks.forecasts.memory`.
Every device is emulated. TensorFlow records each allocation and release of a step with its time; the peak of
a device is the largest sum of bytes that its ops have allocated at the same time. It depends on the order in
which threads run ops, so a step is measured several times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import grammar
from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.session_options import session_config
from compiler.pipeline import make_plan
from compiler.step.read.memory import StepMemory, forecast_memory
from dsl import ir

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SPECS = (("digits.tfdeploy", ()), ("cifar10.tfdeploy", ()))
REPEATS = 5


def prepared(
    spec: ir.Spec,
) -> tuple[Any, CompiledGraph, dict[str, StepMemory], Callable[..., dict[str, int]]]:
    """Return a session that has made a step, its graph, the forecast, and what measures a step's peaks.

    The session has threads of its own, because how they wait for work is an option of the session.
    Peaks may be asked for without what some ops make.
    """
    compiled = compile_graph(make_plan(spec, emulate=True))
    start = compiled.train_input.attach(lambda: _examples(compiled).repeat())
    config = session_config(compiled.plan, use_per_session_threads=True)
    session = tf.compat.v1.Session(graph=compiled.graph, config=config)
    session.run(compiled.init_op)
    session.run(start)
    session.run([compiled.data_loss, compiled.train_op])
    return (
        session,
        compiled,
        forecast_memory(compiled.step),
        lambda without=(): _step(session, compiled, without),
    )


def measure(spec: ir.Spec) -> list[tuple[str, int, int, int]]:
    """Return each device's name, its forecast peak, and its lowest and highest measured peak, in bytes."""
    session, compiled, memory, step = prepared(spec)
    peaks: dict[str, list[int]] = {}
    with session:
        for _ in range(REPEATS):
            for device, peak in step().items():
                peaks.setdefault(device, []).append(peak)
    return [
        (each.ref, each.step_bytes or 0, min(peaks[each.device]), max(peaks[each.device]))
        for each in map_placement(compiled, memory=memory).devices
    ]


def _examples(compiled: Any) -> tf.data.Dataset:
    pipe, generator = compiled.train_input, np.random.default_rng(0)
    batch = {}
    for each in pipe.wanted:
        values = generator.random((pipe.size, *each.shape))
        batch[each.name] = tf.cast(tf.constant(values), each.dtype)  # classes: zeros
    return tf.data.Dataset.from_tensors(batch)


def _step(session: Any, compiled: Any, without: Collection[str]) -> dict[str, int]:
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    session.run([compiled.data_loss, compiled.train_op], options=options, run_metadata=metadata)
    return {device.device: _peak(device, without) for device in metadata.step_stats.dev_stats}


def _peak(device: Any, without: Collection[str]) -> int:
    records = [
        (record.alloc_micros, record.alloc_bytes)
        for node in device.node_stats
        if node.node_name not in without
        for memory in node.memory
        for record in memory.allocation_records
    ]
    alive = peak = 0
    for _, size in sorted(records):
        alive += size
        peak = max(peak, alive)
    return peak


def main() -> None:
    """Print a table."""
    print("spec             device    forecast    measured, lowest to highest    forecast / highest")
    for name, overrides in SPECS:
        for ref, forecast, low, high in measure(grammar.load(EXAMPLES / name, overrides)):
            print(f"{name:16} {ref:8} {forecast:11,} {low:13,} {high:13,} {forecast / max(high, 1):10.2f}")


if __name__ == "__main__":
    main()
