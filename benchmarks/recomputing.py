"""What recomputation saves and costs, beside accumulation and what Keras and TensorFlow have for it.

`python -m benchmarks --recomputing` measures it. Each way to train a model is a process of its own; all make
steps in turn. The peak is that of the resident memory above what there was once TensorFlow was loaded. Of
ours, the peak that TensorFlow's allocator counts in a step, weights and slots left out, is measured too:
of all tensors, of which there is a forecast, and of activations, for which what makes the gradients of
weights and what updates them is left out of the count.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Recomputing, peak_memory
from benchmarks.models import DEEP_ENCODER
from benchmarks.race.run import ROOT, environment
from compiler.step.record import Op

TURNS = 3
MODELS = ("transformer", "resnet50")
BATCH = {"transformer": 16, "resnet50": 8}
LIMITS = {"transformer": "280MB", "resnet50": "335MB"}
"""What steps may need, variables included."""
OURS = ("none", "memory", "accumulate")
KERAS = ("keras", "keras_remat", "keras_recompute_grad")

TRANSFORMER = (
    f"tfdeploy = 1\n{DEEP_ENCODER}"
    """\
model "transformer" {
  x = input(float32, [128, 128])
  y = input(int32, [])
  logits = x -> repeat(24, encoder()) -> GlobalAveragePooling1D() -> Dense(10)
  loss = [y, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
"""
)
TAIL = """
devices {{ cpu = 1 }}
clones {{ batch = {batch} }}
update {{ optimizer = SGD(0.01), {more} }}
train {{ seed = 1, summaries = none }}
"""
MORE = {"none": "recompute = none", "memory": "recompute = memory({limit})", "accumulate": "accumulate = 4"}


def run_recomputing(turns: int = TURNS) -> Iterator[Recomputing]:
    """Measure all ways of all models."""
    today = datetime.now(UTC).date().isoformat()
    for model in MODELS:
        running = {way: _Process(way, model) for way in (*OURS, *KERAS)}
        rates: dict[str, list[float]] = {way: [] for way in running}
        for _ in range(turns):
            for way, process in running.items():
                if process.found is not None:
                    rates[way].append(process.turn())
        for way, process in running.items():
            found = process.end()
            yield Recomputing(model=model, way=way, rates=tuple(rates[way]), date=today, **found)


class _Process:
    """A way to train, in a process of its own, which makes a step for each line that it reads."""

    def __init__(self, way: str, model: str) -> None:
        command = [sys.executable, "-m", "benchmarks.recomputing", way, model]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.found = self._read()  # None if it has failed

    def _read(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def turn(self) -> float:
        """Make a step; return how many there would be in a second."""
        assert self._process.stdin is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        found = self._read()
        assert found is not None
        return float(found["rate"])

    def end(self) -> dict[str, Any]:
        """Return what has been measured besides; nothing if the process has failed."""
        if self.found is None:
            return {}
        assert self._process.stdin is not None
        self._process.stdin.close()
        return {**self.found, **(self._read() or {})}


# --- in the process ---------------------------------------------------------------------------------------


def main() -> None:
    """Train in the way that the command line names, a step for each line of standard input."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    way, model = sys.argv[1:]
    importlib.import_module("keras")
    before = _resident()
    step, found = _ours(way, model) if way in OURS else _keras(way, model)
    step()
    print(json.dumps(found), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        step()
        print(json.dumps({"rate": 1 / (time.perf_counter() - began)}), flush=True)
    print(json.dumps({"resident": peak_memory() - before}), flush=True)
    os._exit(0)  # sessions take their time to end


def _resident() -> int:
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in each)
    return int(line.split()[1]) * 1024


def _ours(way: str, model: str) -> tuple[Callable[[], object], dict[str, Any]]:
    import grammar
    from benchmarks.forecasts.memory import prepared

    text = TRANSFORMER
    if model == "resnet50":
        example = (ROOT / "examples" / "resnet50.tfdeploy").read_text()
        text = example.partition("data {")[0]
    batch = BATCH[model] // (4 if way == "accumulate" else 1)
    text += TAIL.format(batch=batch, more=MORE[way].format(limit=LIMITS[model]))
    spec = grammar.read("recomputing.tfdeploy", text=text).spec
    assert spec is not None
    session, compiled, forecast, peaks = prepared(spec)
    (device,) = forecast
    found = {"forecast": forecast[device].bytes}
    for name, without in (("allocated", ()), ("activations", _of_weights(compiled.step.ops))):
        found[name] = min(max(peaks(without).values()) for _ in range(2))
    return lambda: session.run([compiled.data_loss, compiled.train_op]), found


def _of_weights(ops: Mapping[str, Op]) -> set[str]:
    """Return the ops that make gradients of weights or update weights."""
    updates = {name for name, op in ops.items() if op.role == "update"}
    taken = {each.op for name in updates for each in ops[name].inputs}
    return updates | {name for name in taken if ops[name].role == "gradient"}


def _keras(way: str, model: str) -> tuple[Callable[[], object], dict[str, Any]]:
    import keras
    import numpy as np
    import tensorflow as tf

    generator = np.random.default_rng(0)
    if way == "keras_remat":
        with keras.RematScope(mode="full"):
            net = _net(model, alone=False)
    else:
        net = _net(model, alone=way == "keras_recompute_grad")
    shape = net.input_shape[1:]
    x = tf.constant(generator.random((BATCH[model], *shape), dtype=np.float32))
    y = tf.zeros([BATCH[model]], tf.int32)
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(net.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def train() -> Any:
        with tf.GradientTape() as tape:
            value = loss(y, net(x, training=True))
        found = tape.gradient(value, net.trainable_variables)
        optimizer.apply(found)
        return value

    traced = tf.function(train)
    return lambda: traced().numpy(), {}


def _net(model: str, *, alone: bool) -> Any:
    """Return a model of Keras; `alone` makes each encoder one that TensorFlow computes again."""
    import keras
    import tensorflow as tf
    from keras import layers

    if model == "resnet50":
        if alone:
            raise ValueError("its blocks are no layers of their own")
        return keras.applications.ResNet50(weights=None, classifier_activation=None)

    class Encoder(layers.Layer):  # type: ignore[misc]  # Keras has no types
        """A block as one layer, which TensorFlow computes again as a whole."""

        def __init__(self) -> None:
            super().__init__()
            given = layers.Input((128, 128))
            self.inner = keras.Model(given, _encoder(given))

        def call(self, x: Any) -> Any:
            return tf.recompute_grad(lambda each: self.inner(each, training=True))(x)

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

    given = layers.Input((128, 128))
    hidden = given
    for _ in range(24):
        hidden = Encoder()(hidden) if alone else _encoder(hidden)
    return keras.Model(given, layers.Dense(10)(layers.GlobalAveragePooling1D()(hidden)))


def _encoder(x: Any) -> Any:
    """Return the result of a block of the Transformer."""
    from keras import layers

    attended = layers.MultiHeadAttention(4, 32)(x, x)
    seen = layers.LayerNormalization()(layers.Add()([x, attended]))
    thought = layers.Dense(128)(layers.Dense(512, activation="gelu")(seen))
    return layers.LayerNormalization()(layers.Add()([seen, thought]))


if __name__ == "__main__":
    main()
