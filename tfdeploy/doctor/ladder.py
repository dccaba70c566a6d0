"""The rungs of `doctor --gpu`: each tries a little more of what a run on GPUs needs.

They run in a process of their own (`python -m tfdeploy.doctor.ladder`), because a fault of a driver or a
library can end a process or make it hang. It writes what is installed, and for each rung its name before it
and the outcome after it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import frozen

import grammar
from compiler.figures import plural, size
from compiler.graph.build import compile_graph
from compiler.graph.inspect.placement_map import map_placement
from compiler.pipeline import make_plan
from compiler.step.read.memory import forecast_memory
from dsl.diagnostics import RunError, SpecError
from dsl.files.typed_json import JsonRecord
from dsl.schema.functions import AGGREGATIONS
from tfdeploy.doctor.gpu import FIRST, Installed, Outcome
from tfdeploy.runtime.session.engine import Engine, peak_of_tensors
from tfdeploy.runtime.verify.trial import FedGraph

DRIVER = Path("/proc/driver/nvidia")
STEPS, BATCH, WIDTH, CLASSES = 4, 32, 256, 10
SPEC = """tfdeploy = 1
model "ladder" {{
  x = input(float32, [{width}])
  label = input(int32, [])
  hidden = x -> Dense({width}, activation = relu, name = "hidden")
  y = hidden -> Dense({classes}, name = "y")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{ {kind} = {devices} }}
clones {{
  count = {clones}
  batch = {batch}
}}
place {{
  clones -> {kind}[*]
  variables -> {variables}
}}
update {{
  optimizer = Momentum(0.05)
  aggregate = {aggregate}
  precision = {precision}
}}
"""
TOLERANCE = {"float32": 1e-2, "mixed_float16": 5e-2}
"""The largest difference of weights, relative to the largest change of one, that rounding explains.

On GPUs, products of float32 may be made with the 10 digits of TensorFloat-32.
"""
COLLECTIVE = "collective"
MEMORY_WIDTH, MEMORY_BATCH = 1024, 512
MORE, ROOM = 1.5, 64 << 20
"""A measured peak may be so many times the forecast, and so many bytes of libraries above it."""


class FailedRungError(Exception):
    """Raised by a rung that fails; the message says what was found."""


@frozen
class Machine(JsonRecord):
    """The devices on which the rungs are tried."""

    devices: int  # the number of GPUs, or of logical CPUs in their place
    emulate: bool


Figures = dict[str, float]


@frozen
class Trained:
    """What a few steps have come to."""

    weights: Mapping[str, np.ndarray]
    misplaced: tuple[str, ...]  # the ops that TensorFlow has run elsewhere than requested
    ops: int  # the number of ops whose place was compared
    forecast: int  # the forecast of the memory of a step on the first device, with its variables, in bytes
    measured: int  # the same as it was measured


def train(
    machine: Machine | None,
    *,
    clones: int = 1,
    aggregate: str = "add_n",
    precision: str = "float32",
    width: int = WIDTH,
    batch: int = BATCH,
) -> Trained:
    """Train the model of the ladder for a few steps."""
    emulate = machine is not None and machine.emulate
    text = SPEC.format(
        kind="cpu" if machine is None else "gpu",
        devices=1 if machine is None else min(machine.devices, clones),
        clones=clones,
        batch=batch // clones,
        variables="replicated" if aggregate == COLLECTIVE else "cpu[0]" if machine is None else "gpu[0]",
        aggregate=aggregate,
        precision=precision,
        width=width,
        classes=CLASSES,
    )
    spec = grammar.read("ladder.tfdeploy", text=text).spec
    assert spec is not None
    compiled = compile_graph(make_plan(spec, emulate=emulate), seed=1)
    if machine is not None and not machine.emulate:
        tf.config.experimental.reset_memory_stats("GPU:0")
    with closing(Engine.start(compiled)) as engine:
        engine.start_from(_start(width))
        FedGraph(compiled).train_on(engine.session, _examples(width, batch))
        engine.step(logged=True, traced=True)
        for _ in range(STEPS - 2):
            engine.step(logged=False)
        peaks: dict[str, int] = {}
        engine.on_run_metadata = lambda found: peaks.update(
            {each.device: peak_of_tensors(each.node_stats) for each in found.step_stats.dev_stats}
        )
        engine.step(logged=True)
        memory = forecast_memory(compiled.step)
        placement = map_placement(compiled, engine.assigned, memory)
        first = (
            placement.devices[0]
            if machine is None
            else next(each for each in placement.devices if each.ref.endswith("gpu[0]"))
        )
        held = first.variable_bytes + first.slot_bytes + first.other_bytes
        return Trained(
            engine.values(list(compiled.weights)),
            tuple(each.name for each in placement.misplaced),
            sum(each.assigned is not None for each in placement.ops),
            held + memory[first.ref].bytes,
            _peak_of_gpu(machine) or held + peaks.get(first.device, 0),
        )


def _peak_of_gpu(machine: Machine | None) -> int:
    """Return the most bytes that this process has held on the first GPU; 0 if there is none."""
    if machine is None or machine.emulate:
        return 0
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


def _start(width: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    return {
        "hidden/kernel": draw.normal(0, width**-0.5, (width, width)).astype(np.float32),
        "hidden/bias": np.zeros(width, np.float32),
        "y/kernel": draw.normal(0, width**-0.5, (width, CLASSES)).astype(np.float32),
        "y/bias": np.zeros(CLASSES, np.float32),
    }


def _examples(width: int, batch: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(2)
    return {
        "x": draw.normal(size=(STEPS * batch, width)).astype(np.float32),
        "label": draw.integers(0, CLASSES, STEPS * batch).astype(np.int32),
    }


@cache
def reference() -> Trained:
    """Return what one tower on a CPU comes to."""
    return train(None)


def difference(found: Trained) -> float:
    """Return the largest difference of a weight from the reference, relative to the largest change."""
    right, start = reference().weights, _start(WIDTH)
    change = max(float(np.abs(right[name] - start[name]).max()) for name in right)
    return max(float(np.abs(found.weights[name] - right[name]).max()) for name in right) / change


def _compared(label: str, found: Trained, precision: str = "float32") -> Figures:
    off = difference(found)
    if not off <= TOLERANCE[precision]:  # which NaN is not
        raise FailedRungError(
            f"after {STEPS} steps, weights of {label} differ from those of a CPU by {off:.1%} of their change"
        )
    return {f"{label}: difference": off}


# --- the rungs --------------------------------------------------------------------------------------------


def seen(_: Machine) -> Figures:
    """The driver and TensorFlow see the GPUs."""
    there, usable = known_to_driver(), len(tf.config.list_physical_devices("GPU"))
    if not usable or usable < there:
        raise FailedRungError(f"the driver has {there} GPUs, and TensorFlow can use {usable}")
    return {"known to the driver": there, "usable by TensorFlow": usable}


def known_to_driver() -> int:
    """Return the number of GPUs that NVIDIA's driver knows."""
    folder = DRIVER / "gpus"
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def one_op(machine: Machine) -> Figures:
    """A product of matrices is right on each device."""
    figures = {}
    draw = np.random.default_rng(3)
    left, right = (draw.normal(size=(512, 512)).astype(np.float32) for _ in range(2))
    kind = "CPU" if machine.emulate else "GPU"
    config = tf.compat.v1.ConfigProto(device_count={"CPU": machine.devices}) if machine.emulate else None
    if config is None:
        config = tf.compat.v1.ConfigProto()
        config.gpu_options.allow_growth = True
    for at in range(machine.devices):
        with tf.Graph().as_default(), tf.device(f"/device:{kind}:{at}"):
            given = [tf.compat.v1.placeholder(tf.float32, each.shape) for each in (left, right)]
            product = tf.linalg.matmul(*given)
            with tf.compat.v1.Session(config=config) as session:
                found = session.run(product, dict(zip(given, (left, right), strict=True)))
        off = float(np.abs(found - left @ right).max() / np.abs(left @ right).max())
        if not off <= TOLERANCE["float32"]:
            raise FailedRungError(f"a product of matrices on device {at} is wrong by {off:.1%}")
        figures[f"device {at}: difference"] = off
    return figures


def aggregations(machine: Machine) -> Figures:
    """Every aggregation but TensorFlow's own sums the same gradients."""
    figures: Figures = {}
    for each in AGGREGATIONS:
        if each.name != COLLECTIVE:
            figures |= _compared(each.name, train(machine, clones=2, aggregate=each.name))
    return figures


def memory(machine: Machine) -> Figures:
    """A step holds about as much memory as is forecast."""
    found = train(machine, width=MEMORY_WIDTH, batch=MEMORY_BATCH)
    if found.measured > MORE * found.forecast + ROOM:
        raise FailedRungError(f"{size(found.forecast)} were forecast, and {size(found.measured)} were held")
    return {"forecast": found.forecast, "measured": found.measured}


def placement(machine: Machine) -> Figures:
    """Every op runs on the device that the spec asks for."""
    found = train(machine, clones=2)
    if found.misplaced or not found.ops:
        words = f"{len(found.misplaced)} of {found.ops} ops ran elsewhere than requested"
        raise FailedRungError(f"{words}, such as {found.misplaced[0]}" if found.misplaced else words)
    return {"ops": found.ops}


Rung = Callable[[Machine], Figures]
TRIED: dict[str, Rung] = {
    "seen": seen,
    "op": one_op,
    "tower": lambda machine: _compared("one tower", train(machine)),
    "two towers": lambda machine: _compared("two towers", train(machine, clones=2)),
    "aggregations": aggregations,
    "collectives": lambda machine: _compared(COLLECTIVE, train(machine, clones=2, aggregate=COLLECTIVE)),
    "float16": lambda machine: _compared(
        "mixed_float16", train(machine, precision="mixed_float16"), "mixed_float16"
    ),
    "memory": memory,
    "placement": placement,
}
"""What tries each rung of `rungs.py`."""


def installed(gpus: Sequence[Any]) -> Installed:
    """Return what is installed here."""
    build = tf.sysconfig.get_build_info()
    version, driver = DRIVER / "version", None
    if version.is_file():
        driver = next(iter(version.read_text(errors="replace").splitlines()), "")
    details = map(tf.config.experimental.get_device_details, gpus)
    named = (f"{each.get('device_name')} {each.get('compute_capability')}" for each in details)
    cuda, cudnn = (build.get(f"{each}_version") for each in ("cuda", "cudnn"))
    return Installed(tf.__version__, metadata.version("keras"), cuda, cudnn, driver, tuple(named))


def climb(name: str, machine: Machine) -> Outcome:
    """Try a rung."""
    if name == FIRST and machine.emulate:
        return Outcome(name, skipped=f"{plural(machine.devices, 'logical CPU')} in place of GPUs")
    if name == "collectives" and machine.devices < 2:  # noqa: PLR2004 two devices
        return Outcome(name, skipped="there is only one GPU")
    begun = time.perf_counter()
    try:
        figures, failure = TRIED[name](machine), None
    except FailedRungError as fault:
        figures, failure = {}, str(fault)
    except (RunError, SpecError, tf.errors.OpError, RuntimeError, ValueError) as fault:
        figures, failure = {}, " ".join(str(getattr(fault, "message", fault)).split())
    return Outcome(name, failure, None, round(time.perf_counter() - begun, 3), figures)


def main(words: list[str]) -> int:
    """Say what is installed, and try rungs.

    Args:
        words: The number of logical CPUs, or 0 for GPUs, and the names of the rungs.
    """
    emulated = int(words[0])
    from tfdeploy.runtime.start_tensorflow import start_tensorflow

    start_tensorflow()
    gpus = tf.config.list_physical_devices("GPU")
    for each in gpus:
        tf.config.experimental.set_memory_growth(each, True)
    machine = Machine(emulated or len(gpus), emulate=emulated > 0)
    sys.stdout.write(installed(gpus).to_json() + "\n")
    for name in words[1:]:
        for line in (name, climb(name, machine).to_json()):
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
