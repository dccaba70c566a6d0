"""One layout in a process of its own: `python -m benchmarks.forecasts.worker SPEC PROFILE SECONDS`.

It says in one line of JSON what the forecast is, and the median time of a step. With `-` as SECONDS it makes
no step.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median
from typing import Any

WARM = 100
FEWEST = 10


def main() -> None:
    """Forecast and measure what the command line names."""
    import grammar
    from compiler.time.profile import read_profile
    from tfdeploy.runtime.plans import graph_of, plan_of

    path, profile, seconds = sys.argv[1:]
    compiled = graph_of(plan_of(grammar.load(path)))
    from compiler.graph.inspect.timed_step import forecast_time

    found = forecast_time(compiled, read_profile(profile))
    assert found is not None
    measured = None if seconds == "-" else _measure(compiled, float(seconds))
    print(json.dumps({"forecast": found.seconds, "known": found.measured, "measured": measured}))


def _measure(compiled: Any, seconds: float) -> float:
    """Return the median time of steps, of as many as fit into `seconds`."""
    import tensorflow as tf

    from compiler.graph.inspect.one_step import made_up_batch
    from compiler.graph.session_options import session_config

    starts = [
        pipe.attach(lambda pipe=pipe: tf.data.Dataset.from_tensors(made_up_batch(pipe)).repeat())
        for pipe in compiled.train_inputs
    ]
    with tf.compat.v1.Session(graph=compiled.graph, config=session_config(compiled.plan)) as session:
        session.run(compiled.init_op)
        session.run(starts)
        session.run([pipe.puts for pipe in compiled.train_inputs])
        step = session.make_callable([compiled.data_loss, compiled.train_op])
        return _median(step, seconds)


def _median(step: Any, seconds: float) -> float:
    begin, times = time.perf_counter(), list[float]()
    made = 0
    while made < FEWEST or time.perf_counter() < begin + 2 * seconds:
        began = time.perf_counter()
        step()
        if made >= WARM or began > begin + seconds:  # TensorFlow has learnt which ops are short
            times.append(time.perf_counter() - began)
        made += 1
    return median(times or [time.perf_counter() - began])


if __name__ == "__main__":
    main()
