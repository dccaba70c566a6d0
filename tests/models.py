"""Small models of several kinds, with examples for them, to hold clones against one tower."""

from typing import Any

import numpy as np

from dsl import ir
from tests.support import Training, cloned, spec_of

TEXT = """
  {input}
  class = input(int32, [])
  logits = x {layers} -> Dense(5, name = "logits")
  loss = [class, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics {{
    accuracy = [class, logits] -> SparseCategoricalAccuracy()
  }}
"""
REGRESSION = """
  x = input(float32, [{inputs}])
  y = input(float32, [{outputs}])
  z = x {layers}
  loss = [y, z] -> MeanSquaredError()
"""
IMAGES, WORDS = "x = input(float32, [6, 6, 2])", "x = input(int32, [6])"
NORMAL = """
    -> Conv2D(4, 3, use_bias = false, name = "conv")
    -> BatchNormalization(momentum = 0.9, name = "norm") -> ReLU() -> Flatten()
"""
KINDS = {
    "dense": (IMAGES, '-> Flatten() -> Dense(8, activation = tanh, name = "hidden")'),
    "normal": (
        IMAGES,
        NORMAL,
    ),
    "words": (WORDS, '-> Embedding(40, 4, name = "table") -> Flatten()'),
    "recurrent": (WORDS, '-> Embedding(40, 4, name = "table") -> LSTM(5, name = "lstm")'),
}


def model(
    kind: str,
    *,
    clones: int = 1,
    batch: Any = 24,
    optimizer: str = "SGD(0.5)",
    place: str = "",
    layers: str | None = None,
    devices: int | None = None,
    **overrides: str,
) -> ir.Spec:
    """Return the spec of a small model of one of the KINDS; `place` are more rules of placement."""
    inputs, own = KINDS[kind]
    model, place = TEXT.format(input=inputs, layers=layers or own), f"clones -> cpu[*]\n{place}"
    update = f"optimizer = {optimizer}"
    text = cloned(model, clones, batch=batch, devices=devices, place=place, update=update, seed=7)
    return spec_of(text, **overrides)


def regression(
    layers: str, inputs: int, outputs: int, *, variables: str = "cpu[1]", **overrides: str
) -> ir.Spec:
    """Return the spec of two clones of a few layers without images, words and classes."""
    model = REGRESSION.format(layers=layers, inputs=inputs, outputs=outputs)
    place = f"clones -> cpu[*]\nvariables -> {variables}"
    text = cloned(model, place=place, update="optimizer = SGD(1)", seed=5)
    return spec_of(text, **overrides)


def data(kind: str, count: int = 24, seed: int = 3) -> dict[str, Any]:
    """Return `count` examples for a model; of words, some come several times in one of them."""
    generator = np.random.default_rng(seed)
    images = KINDS[kind][0] == IMAGES
    shown = (
        generator.normal(size=(count, 6, 6, 2)) * 2 + 1 if images else generator.integers(0, 12, (count, 6))
    )
    return {
        "x": shown.astype(np.float32 if images else np.int32),
        "class": generator.integers(0, 5, count).astype(np.int32),
    }


def train(spec: ir.Spec, arrays: dict[str, Any], steps: int) -> tuple[dict[str, Any], list[float]]:
    """Return all variables after some steps, and the losses before each."""
    with Training(spec, arrays) as training:
        losses = training.steps(steps)
        return training.values(), losses
