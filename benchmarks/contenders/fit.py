"""Keras `fit` under `tf.distribute.MirroredStrategy` over logical CPUs."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.contenders.mirrored import dataset, strategy_over
from benchmarks.figures import Figures, peak_memory, since_process_start
from benchmarks.models import Problem


def measure(problem: Problem, towers: int, steps: int) -> Figures:
    """Compile the model under the strategy and let `fit` run the steps; a callback notes when."""
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
    ends: list[float] = []
    since: list[float] = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            del batch, logs
            ends.append(time.perf_counter())
            since.append(since_process_start())

    warm_up = 4
    history = model.fit(
        dataset(problem, towers), steps_per_epoch=warm_up + steps, epochs=1, verbose=0, callbacks=[Clock()]
    )
    speed = steps / (ends[-1] - ends[warm_up - 1])
    loss = float(history.history["loss"][-1])
    return Figures("fit", problem.name, towers, build, since[0], speed, peak_memory(), 0, loss)
