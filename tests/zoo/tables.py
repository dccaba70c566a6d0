"""Keras models of the zoo for rows of tables: advertisements, recommendations, sensors, rare cases."""

from typing import Any

import keras
from keras import layers, ops

from tests.zoo.keras_layers import Added, Same
from tests.zoo.twin import CLASSES, Twin

YES_OR_NO = keras.losses.BinaryCrossentropy(from_logits=True)


def tab_transformer() -> Twin:
    """Columns with categories through a Transformer, numbers beside them."""
    categories = keras.Input((4,), dtype="int32", name="categories")
    numbers = keras.Input((3,), name="numbers")
    rows = categories + ops.array([0, 10, 20, 30])
    x = layers.Embedding(40, 8, name="table")(rows) + Same((4, 8), name="columns")(categories)
    for name in ("encoder", "encoder_1"):
        x = x + layers.MultiHeadAttention(2, 4, name=f"{name}_attention")(x, x)
        x = layers.LayerNormalization(name=f"{name}_norm1")(x)
        y = layers.Dense(16, activation="gelu", name=f"{name}_wide")(x)
        x = layers.LayerNormalization(name=f"{name}_norm2")(x + layers.Dense(8, name=f"{name}_narrow")(y))
    y = layers.LayerNormalization(name="norm")(numbers)
    y = layers.Dense(12, activation="relu", name="hidden")(layers.Concatenate()([layers.Flatten()(x), y]))
    score = layers.Dense(1, name="score")(y)
    return Twin(keras.Model([categories, numbers], score), [YES_OR_NO], ["bought"])


def wide_and_deep() -> Twin:
    """A linear model and a network, added."""
    crossed = keras.Input((20,), name="crossed")
    numbers = keras.Input((4,), name="numbers")
    app = keras.Input((), dtype="int32", name="app")
    x = layers.Concatenate()([numbers, layers.Embedding(30, 6, name="apps")(app)])
    x = layers.Dense(12, activation="relu", name="deep1")(x)
    x = layers.Dense(6, activation="relu", name="deep2")(x)
    wide = layers.Dense(1, use_bias=False, name="wide")(crossed)
    score = layers.Add()([wide, layers.Dense(1, name="deep")(x)])
    return Twin(keras.Model([crossed, numbers, app], score), [YES_OR_NO], ["installed"])


def dlrm() -> Twin:
    """Dot products of embeddings."""
    numbers = keras.Input((5,), name="numbers")
    features = [layers.Dense(8, activation="relu", name="bottom1")(numbers)]
    features = [layers.Dense(4, activation="relu", name="bottom2")(features[0])]
    sparse = {"user": 50, "item": 40, "place": 10}
    inputs = [keras.Input((), dtype="int32", name=name) for name in sparse]
    for each, size in zip(inputs, sparse.values(), strict=True):
        features.append(layers.Embedding(size, 4, name=f"{each.name}s")(each))
    stacked = ops.stack(features, axis=1)
    products = layers.Flatten()(layers.Dot(axes=2)([stacked, stacked]))
    x = layers.Dense(8, activation="relu", name="top1")(layers.Concatenate()([features[0], products]))
    score = layers.Dense(1, name="top2")(x)
    return Twin(keras.Model([numbers, *inputs], score), [YES_OR_NO], ["clicked"])


def two_tower_retrieval() -> Twin:
    """Vectors of users and items, of length one."""
    user = keras.Input((), dtype="int32", name="user")
    items = keras.Input((6,), dtype="int32", name="items")
    asked = layers.Dense(4, name="user_tower")(layers.Embedding(40, 6, name="users")(user))
    offered = layers.Dense(4, name="item_tower")(layers.Embedding(60, 6, name="items_table")(items))
    scores = 10 * layers.Dot(axes=(1, 2), normalize=True)([asked, offered])
    return Twin(keras.Model([user, items], scores), [CLASSES], ["right"])


def focal_loss() -> Twin:
    """Two dense layers under a focal loss."""
    x = keras.Input((8,), name="x")
    hidden = layers.Dense(12, activation="relu", name="hidden")(x)
    probability = layers.Dense(1, activation="sigmoid", name="probability")(hidden)
    loss = keras.losses.BinaryFocalCrossentropy(apply_class_balancing=True, alpha=0.9, gamma=2.0)
    return Twin(keras.Model(x, probability), [loss], ["rare"])


def _pinball(target: Any, guesses: Any) -> Any:
    quantiles = ops.array([0.1, 0.5, 0.9])
    errors = target - guesses
    return ops.mean(ops.maximum(quantiles * errors, (quantiles - 1) * errors), axis=-1)


def quantile_regression() -> Twin:
    """Two dense layers under a loss of one's own."""
    x = keras.Input((6,), name="x")
    hidden = layers.Dense(12, activation="relu", name="hidden")(x)
    return Twin(keras.Model(x, layers.Dense(3, name="guesses")(hidden)), [_pinball], ["y"])


class _GraphConvolution(layers.Layer):  # type: ignore[misc] # Keras has no types
    """A dense layer, mixed along the edges of a graph."""

    def __init__(self, width: int, name: str) -> None:
        super().__init__(name=name)
        self.dense = layers.Dense(width, name="dense")
        self.graph = ops.array(
            [
                [0.5, 0.4, 0, 0, 0],
                [0.4, 0.3, 0.3, 0, 0],
                [0, 0.3, 0.3, 0.3, 0],
                [0, 0, 0.3, 0.3, 0.4],
                [0, 0, 0, 0.4, 0.5],
            ]
        )

    def call(self, inputs: Any) -> Any:
        """Return the features of the nodes after their neighbours."""
        return ops.einsum("ij,bjc->bic", self.graph, self.dense(inputs))


def graph_convolution() -> Twin:
    """Two convolutions on a graph of five nodes."""
    speeds = keras.Input((5, 4), name="speeds")
    hidden = ops.relu(_GraphConvolution(8, "convolution")(speeds))
    guess = layers.Reshape((5,))(_GraphConvolution(1, "convolution_1")(hidden))
    return Twin(keras.Model(speeds, guess), [keras.losses.MeanSquaredError()], ["later"])


def nerf() -> Twin:
    """Colours and densities along a ray, added up."""
    points = keras.Input((4, 3), name="points")
    direction = keras.Input((3,), name="direction")
    scaled = ops.concatenate([points, 2 * points, 4 * points], axis=-1)
    x = ops.concatenate([points, ops.sin(scaled), ops.cos(scaled)], axis=-1)
    for name in ("hidden1", "hidden2"):
        x = layers.Dense(12, activation="relu", name=name)(x)
    density = layers.Dense(1, activation="softplus", name="density")(x)
    seen = layers.Concatenate()([x, layers.RepeatVector(4)(direction)])
    shades = layers.Dense(3, activation="sigmoid", name="shades")(seen)
    opaque = 1 - ops.exp(-0.25 * density)
    through = ops.cumprod(1 - opaque + 1e-6, axis=1) / (1 - opaque + 1e-6)
    pixel = ops.sum(opaque * through * shades, axis=1)
    return Twin(keras.Model([points, direction], pixel), [keras.losses.MeanSquaredError()], ["colour"])


def multi_task() -> Twin:
    """Three outputs, three losses with weights."""
    x = keras.Input((8,), name="x")
    shared = layers.Dense(12, activation="relu", name="shared1")(x)
    shared = layers.Dense(8, activation="relu", name="shared2")(shared)
    logits = layers.Dense(3, name="kind_logits")(shared)
    guess = layers.Dense(1, name="size_guess")(shared)
    new = layers.Dense(1, activation="sigmoid", name="new_probability")(shared)
    return Twin(
        keras.Model(x, [logits, guess, new]),
        [CLASSES, keras.losses.MeanSquaredError(), keras.losses.BinaryCrossentropy()],
        ["kind", "size", "new"],
        weights=[1.0, 0.5, 0.2],
        predictor=keras.Model(x, {"logits": logits, "guess": guess, "probability": new}),
    )


def siamese() -> Twin:
    """One encoder for two images; the loss is added by a layer."""
    left, right = (keras.Input((8, 8, 1), name=name) for name in ("left", "right"))
    same = keras.Input((), name="same")
    convolution = layers.Conv2D(4, 3, activation="relu", name="encode_conv")
    dense = layers.Dense(8, name="encode_code")
    a, b = (dense(layers.Flatten()(convolution(each))) for each in (left, right))
    distance = ops.sqrt(ops.sum(ops.square(a - b), axis=-1) + 1e-6)
    loss = same * ops.square(distance) + (1 - same) * ops.square(ops.relu(1 - distance))
    predictor = keras.Model([left, right], distance)
    return Twin(keras.Model([left, right, same], Added()(loss)), predictor=predictor)


def vae() -> Twin:
    """An autoencoder whose added loss is the divergence of its codes from a normal distribution."""
    image = keras.Input((8, 8, 1), name="image")
    x = layers.Conv2D(4, 3, 2, padding="same", activation="relu", name="encode")(image)
    x = layers.Flatten()(x)
    mean = layers.Dense(3, name="mean")(x)
    log_variance = layers.Dense(3, name="log_variance")(x)
    code = mean + ops.exp(0.5 * log_variance) * layers.GaussianNoise(0.0)(ops.zeros_like(mean))
    y = layers.Dense(64, activation="relu", name="decode1")(code)
    y = layers.Reshape((4, 4, 4))(y)
    y = layers.Conv2DTranspose(1, 3, 2, padding="same", activation="sigmoid", name="decode2")(y)
    squares = ops.exp(log_variance) + ops.square(mean)
    kl = Added()(0.01 * 0.5 * ops.sum(squares - 1 - log_variance, axis=-1))
    y = y + 0 * ops.reshape(kl, (-1, 1, 1, 1))
    return Twin(keras.Model(image, y), [keras.losses.BinaryCrossentropy()], ["image"])


def supervised_contrastive() -> Twin:
    """Vectors of images, compared within a group; the loss is added by a layer."""
    images = keras.Input((6, 6, 6, 1), name="images")
    kinds = keras.Input((6,), dtype="int32", name="kinds")
    x = layers.TimeDistributed(layers.Conv2D(4, 3, activation="relu", name="each"), name="conv")(images)
    x = layers.Dense(8, name="vectors")(layers.TimeDistributed(layers.Flatten())(x))
    vectors = layers.UnitNormalization()(x)
    others = 1 - ops.eye(6)
    scores = ops.matmul(vectors, ops.transpose(vectors, (0, 2, 1))) / 0.5
    rest = ops.log(ops.sum(ops.exp(scores) * others, axis=-1, keepdims=True))
    same = ops.cast(ops.equal(ops.expand_dims(kinds, 1), ops.expand_dims(kinds, 2)), "float32") * others
    each = ops.sum(same * (scores - rest), axis=-1) / ops.maximum(ops.sum(same, axis=-1), 1)
    loss = Added()(ops.mean(-each, axis=-1))
    return Twin(keras.Model([images, kinds], loss), predictor=keras.Model(images, vectors))
