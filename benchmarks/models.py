"""The models of the benchmarks: each as a spec and as Keras code for the peers, with the same data.

Both forms have the same layers, loss and optimizer (SGD with momentum 0.9 and learning rate 0.01); a test
compares their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen


@frozen
class Problem:
    """A model to train on examples of `shape`: integers below `vocabulary`, or floats.

    Attributes:
        name: Its name.
        spec: Its spec without devices, clones, update and training.
        keras_model: Makes it in Keras.
        shape: The shape of an example.
        vocabulary: How many integers there are, or None for floats.
        classes: The number of classes.
        batch: The examples of a batch.
        zipf: The exponent of Zipf's law by which integers are drawn, or None if all are equally frequent.
    """

    name: str
    spec: str
    keras_model: Callable[[], Any]
    shape: tuple[int, ...]
    vocabulary: int | None
    classes: int
    batch: int
    zipf: float | None = None

    def arrays(self, count: int) -> tuple[Any, Any]:
        """Return `count` random examples: the inputs and the classes."""
        import numpy as np

        generator = np.random.default_rng(0)
        labels = generator.integers(0, self.classes, count).astype(np.int32)
        if self.vocabulary is None:
            return generator.random((count, *self.shape), dtype=np.float32), labels
        size = (count, *self.shape)
        if self.zipf is None:
            return generator.integers(0, self.vocabulary, size).astype(np.int32), labels
        # Frequent numbers are spread over the table, as in tables of hashes.
        ranks = generator.zipf(self.zipf, size)
        return (ranks * 2_654_435_761 % self.vocabulary).astype(np.int32), labels


DEEP_ENCODER = """layer "encoder" {
  x = input()
  attended = [x, x] -> MultiHeadAttention(4, 32)
  seen = [x, attended] -> Add() -> LayerNormalization()
  thought = seen -> Dense(512, activation = gelu) -> Dense(128)
  output = [seen, thought] -> Add() -> LayerNormalization()
}
"""
"""A block of the deep Transformers that are recomputed, and cut into stages."""

HEAD = """
tfdeploy = 1
model "{name}" {{
  x = input({dtype}, {shape})
  y = input(int32, [])
  logits = x {layers}
  loss = [y, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}
{blocks}
"""

TAIL = """
devices {{ cpu = {towers} }}
clones {{ count = {towers}, batch = {batch} }}
update {{ optimizer = Momentum(0.01, momentum = 0.9) }}
train {{ seed = 1, summaries = none }}
"""


def spec_text(problem: Problem, towers: int) -> str:
    """Return the spec of a problem for a number of towers on as many logical CPUs."""
    return problem.spec + TAIL.format(towers=towers, batch=problem.batch)


def _lenet() -> Any:
    from keras import Sequential, layers

    return Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(10),
        ]
    )


def _mlp() -> Any:
    from keras import Sequential, layers

    return Sequential(
        [
            layers.Input((784,)),
            layers.Dense(512, activation="relu"),
            layers.Dense(512, activation="relu"),
            layers.Dense(10),
        ]
    )


def _deep() -> Any:
    from keras import Sequential, layers

    hidden = [layers.Dense(32, activation="relu") for _ in range(74)]
    return Sequential([layers.Input((32,)), *hidden, layers.Dense(10)])


def _resnet(depth: int) -> Problem:
    """Return a residual network of Keras's collection, for images of 64 x 64."""

    def keras_model() -> Any:
        from keras import applications

        make = getattr(applications, f"ResNet{depth}")
        return make(weights=None, classes=1000, input_shape=(64, 64, 3), classifier_activation=None)

    layers = (
        f"-> applications.ResNet{depth}(weights = none, classes = 1000, input_shape = [64, 64, 3], "
        "classifier_activation = none)"
    )
    spec = HEAD.format(name=f"resnet{depth}", dtype="float32", shape="[64, 64, 3]", blocks="", layers=layers)
    return Problem(f"resnet{depth}", spec, keras_model, (64, 64, 3), None, 1000, 2)


def _embedding() -> Any:
    from keras import Sequential, layers

    return Sequential(
        [
            layers.Input((32,), dtype="int32"),
            layers.Embedding(50_000, 64),
            layers.GlobalAveragePooling1D(),
            layers.Dense(10),
        ]
    )


def _transformer() -> Any:
    import keras
    from keras import layers

    tokens = layers.Input((64,), dtype="int32")
    x = layers.Embedding(1000, 64)(tokens)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 16)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        hidden = layers.Dense(64)(layers.Dense(128, activation="relu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, hidden]))
    return keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


ROWS, COLUMNS = 1_000_000, 64

TABLE = Problem(
    "table",
    HEAD.format(
        name="table",
        dtype="int32",
        shape="[32]",
        blocks="",
        layers=f"-> Embedding({ROWS:_}, {COLUMNS}) -> GlobalAveragePooling1D() -> Dense(10)",
    ),
    lambda: None,  # the strategy cannot cut Keras's variables; its contender has the same model by hand
    (32,),
    ROWS,
    10,
    256,
    zipf=1.2,
)

ENCODER = """
layer "encoder" {{
  x = input()
  attended = [x, x] -> MultiHeadAttention(4, 16)
  a = [x, attended] -> Add() -> LayerNormalization()
  hidden = a -> Dense(128, activation = relu) -> Dense(64)
  output = [a, hidden] -> Add() -> LayerNormalization()
}}
"""

PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "lenet",
            HEAD.format(
                name="lenet",
                dtype="float32",
                shape="[28, 28, 1]",
                blocks="",
                layers="""
    -> Conv2D(32, 5, padding = same, activation = relu) -> MaxPooling2D(2)
    -> Conv2D(64, 5, padding = same, activation = relu) -> MaxPooling2D(2)
    -> Flatten() -> Dense(512, activation = relu) -> Dense(10)""",
            ),
            _lenet,
            (28, 28, 1),
            None,
            10,
            16,
        ),
        Problem(
            "mlp",
            HEAD.format(
                name="mlp",
                dtype="float32",
                shape="[784]",
                blocks="",
                layers="-> Dense(512, activation = relu) -> Dense(512, activation = relu) -> Dense(10)",
            ),
            _mlp,
            (784,),
            None,
            10,
            64,
        ),
        Problem(
            "deep",
            HEAD.format(
                name="deep",
                dtype="float32",
                shape="[32]",
                blocks="",
                layers="-> repeat(74, Dense(32, activation = relu)) -> Dense(10)",
            ),
            _deep,
            (32,),
            None,
            10,
            64,
        ),
        Problem(
            "transformer",
            HEAD.format(
                name="transformer",
                dtype="int32",
                shape="[64]",
                blocks=ENCODER.format(),
                layers="-> Embedding(1000, 64) -> repeat(2, encoder()) "
                "-> GlobalAveragePooling1D() -> Dense(10)",
            ),
            _transformer,
            (64,),
            1000,
            10,
            16,
        ),
        Problem(
            "embedding",
            HEAD.format(
                name="embedding",
                dtype="int32",
                shape="[32]",
                blocks="",
                layers="-> Embedding(50_000, 64) -> GlobalAveragePooling1D() -> Dense(10)",
            ),
            _embedding,
            (32,),
            50_000,
            10,
            64,
        ),
        _resnet(50),
        _resnet(101),
        _resnet(152),
    )
}
