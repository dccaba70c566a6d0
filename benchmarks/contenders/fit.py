"""Keras `fit` under `tf.distribute.MirroredStrategy` over logical CPUs."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.contenders.mirrored import dataset, strategy_over
from benchmarks.figures import Running, since_process_start
from benchmarks.models import Problem


def start(problem: Problem, towers: int) -> Running:
    """Compile the model under the strategy and let `fit` make a step; a callback notes when steps end."""
    import keras

    began = time.perf_counter()
    with strategy_over(towers).scope():
        model = problem.keras_model()
        model.compile(
            optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
        )
    build = time.perf_counter() - began
    data = dataset(problem, towers)
    ends: list[float] = []

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            ends.append(time.perf_counter())

    def advance(steps: int) -> float:
        """Make one step more than asked for, because the first one includes the beginning of `fit`."""
        ends.clear()
        model.fit(data, steps_per_epoch=1 + steps, epochs=1, verbose=0, callbacks=[Clock()])
        return ends[-1] - ends[0]

    model.fit(data, steps_per_epoch=1, epochs=1, verbose=0)
    return Running(build, advance, since_process_start())
