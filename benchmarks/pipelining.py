"""What a pipeline over two devices gains against the same spec that takes one micro-batch after the other.

`python -m benchmarks --pipelining` measures it. Each device is a logical CPU with one thread. All ways
make steps in turn in one process, so that whatever else the machine does is the same for them. The peak of
the first stage is what TensorFlow's allocator counts in a step, weights and slots left out. Times
are forecast from a profile of the spec without a schedule, which is made between the turns.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import grammar
from benchmarks.figures import Pipelining
from benchmarks.models import DEEP_ENCODER

TURNS = 15
CALIBRATION_SECONDS = 7.2
"""The most seconds of each measurement of the calibration."""

WAYS = {"none": ("none", 1), "shared": ("none", 2), "one_f_one_b": ("one_f_one_b", 2), "gpipe": ("gpipe", 2)}
"""The schedule and the threads of each way.

Logical CPUs share the threads of their session. Without a schedule one of them has work at a time, so that
one thread is a thread for each; with two, either would compute with both.
"""

SPEC = (
    f"tfdeploy = 1\n{DEEP_ENCODER}"
    """\
model "transformer" {
  x = input(float32, [64, 128])
  y = input(int32, [])
  logits = x -> repeat(8, encoder()) -> GlobalAveragePooling1D(name = "pool") -> Dense(10, name = "logits")
  loss = [y, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices { cpu = 2, inter_op_threads = 2, intra_op_threads = 1 }
clones { batch = 8 }
place {
  clones -> groups(cpu[*], size = 2)
  ops("encoder_[4-7]/*") -> group[1]
  ops("pool*") -> group[1]
  ops("logits/*") -> group[1]
  ops("loss/*") -> group[1]
  variables("encoder_[4-7]/*") -> cpu[1]
}
update { optimizer = SGD(0.01), accumulate = 8, schedule = none }
train { seed = 1, summaries = none }
"""
)


def run_pipelining(turns: int = TURNS) -> Iterator[Pipelining]:
    """Measure all ways, between the turns of a calibration of the spec without one."""
    from benchmarks.forecasts.cases import profile_between
    from benchmarks.forecasts.memory import prepared
    from compiler.step.read.work import forecast_time
    from compiler.time.profile import FoundProfile

    today, steps, found, compiled_steps = datetime.now(UTC).date().isoformat(), {}, {}, {}
    for way, (schedule, threads) in WAYS.items():
        text = SPEC.replace("schedule = none", f"schedule = {schedule}")
        text = text.replace("inter_op_threads = 2", f"inter_op_threads = {threads}")
        spec = grammar.read("pipelining.tfdeploy", text=text).spec
        assert spec is not None
        session, compiled, forecast, peaks = prepared(spec)
        device = compiled.plan.tensorflow_device(compiled.plan.towers[0].device)
        allocated = min(peak for _ in range(2) for name, peak in peaks().items() if name.endswith(device))
        found[way] = allocated, forecast["cpu[0]"].bytes
        steps[way] = session, [compiled.data_loss, compiled.train_op]
        compiled_steps[way] = compiled.step
    rates: dict[str, list[float]] = {way: [] for way in steps}

    def take_turn() -> None:
        for way, (session, ends) in steps.items():
            began = time.perf_counter()
            session.run(ends)
            rates[way].append(1 / (time.perf_counter() - began))

    with TemporaryDirectory() as folder:
        spec_file = Path(folder, "pipelining.tfdeploy")
        spec_file.write_text(SPEC, encoding="utf-8")
        profile = profile_between(spec_file, [1], CALIBRATION_SECONDS, turns, take_turn)
    for way, each in rates.items():
        time_of_step = forecast_time(compiled_steps[way], FoundProfile("calibrated", profile))
        assert time_of_step is not None
        bubble = time_of_step.for_map().bubble
        yield Pipelining(way, tuple(each), today, *found[way], time_of_step.seconds, bubble)
