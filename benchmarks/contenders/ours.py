"""A spec, compiled by tfdeploy."""

from __future__ import annotations

import time

from benchmarks.figures import Figures, peak_memory, rate, since_process_start
from benchmarks.models import Problem, spec_text


def measure(problem: Problem, towers: int, steps: int) -> Figures:
    """Build the graph of the spec and train it in a session."""
    import tensorflow as tf

    import grammar
    from compiler.graph.build import compile_graph
    from compiler.pipeline import make_plan

    began = time.perf_counter()
    reading = grammar.read("benchmark.tfdeploy", text=spec_text(problem, towers))
    assert reading.spec is not None, [str(each) for each in reading.diagnostics]
    compiled = compile_graph(make_plan(reading.spec))
    build = time.perf_counter() - began
    if steps == 0:
        return Figures(
            "ours", problem.name, towers, build, 0, 0, peak_memory(), len(compiled.graph.get_operations())
        )
    batch = compiled.plan.global_batch
    x, y = problem.arrays(4 * batch)
    start = compiled.train_input.attach(
        lambda: (
            tf.data.Dataset.from_tensor_slices({"x": x, "y": y})
            .repeat()
            .batch(batch, drop_remainder=True)
            .prefetch(2)
        )
    )
    with tf.compat.v1.Session(graph=compiled.graph, config=compiled.session_config()) as session:
        session.run(compiled.init_op)
        session.run(start)
        step = session.make_callable([compiled.data_loss, compiled.train_op])
        step()
        first = since_process_start()
        speed = rate(step, steps)
        loss = float(step()[0])
    return Figures(
        "ours",
        problem.name,
        towers,
        build,
        first,
        speed,
        peak_memory(),
        len(compiled.graph.get_operations()),
        loss,
    )
