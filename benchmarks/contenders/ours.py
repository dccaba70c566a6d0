"""A spec, compiled by tfdeploy."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.figures import Built, Running, repeating, since_process_start
from benchmarks.models import Problem, spec_text
from compiler.graph.session_options import session_config


def build(problem: Problem, towers: int) -> Built:
    """Build the graph of the spec. Then trace one tower again, to compare what a clone adds."""
    import grammar
    from compiler.graph.tower.trace import Tracer
    from compiler.pipeline import make_plan

    compiled, seconds = _compiled(problem, towers)
    reading = grammar.read("benchmark.tfdeploy", text=spec_text(problem, towers))
    assert reading.spec is not None
    plan = make_plan(reading.spec)
    began = time.perf_counter()
    Tracer(plan.model, seed=1).trace(problem.batch, training=True)
    return Built(seconds, len(compiled.graph.get_operations()), time.perf_counter() - began)


def start(problem: Problem, towers: int) -> Running:
    """Build the graph of the spec and make a step in a session."""
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    tf = start_tensorflow()
    compiled, build = _compiled(problem, towers)
    batch = compiled.plan.global_batch
    x, y = problem.arrays(4 * batch)
    begin = compiled.train_input.attach(
        lambda: (
            tf.data.Dataset.from_tensor_slices({"x": x, "y": y})
            .repeat()
            .batch(batch, drop_remainder=True)
            .prefetch(2)
        )
    )
    session = tf.compat.v1.Session(graph=compiled.graph, config=session_config(compiled.plan))
    session.run(compiled.init_op)
    session.run(begin)
    step = session.make_callable([compiled.data_loss, compiled.train_op])
    step()
    return Running(build, repeating(step), since_process_start(), len(compiled.graph.get_operations()))


def _compiled(problem: Problem, towers: int) -> tuple[Any, float]:
    """Return the compiled spec, and the seconds from its text to there."""
    import grammar
    from compiler.graph.build import compile_graph
    from compiler.pipeline import make_plan

    began = time.perf_counter()
    reading = grammar.read("benchmark.tfdeploy", text=spec_text(problem, towers))
    assert reading.spec is not None, [str(each) for each in reading.diagnostics]
    compiled = compile_graph(make_plan(reading.spec))
    return compiled, time.perf_counter() - began
