"""Functional models of the kinds that people write: to a spec, to a model again, and to a spec again."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
from keras import layers, ops

from benchmarks.applications import outline
from compiler.graph.adapters.keras_private import compiled_with
from compiler.graph.storage.export import plain_model
from compiler.graph.user_code import kept_keras
from compiler.pipeline import make_plan
from dsl import ir
from grammar import read
from tests.graphs import unusual_keras
from tfdeploy.onramp.convert import Converted, convert
from tfdeploy.onramp.reading import read_model
from tfdeploy.onramp.writing import draft, text_of


def text_classifier() -> keras.Model:
    """Return recurrent layers over words, of which zeros are masked."""
    words = keras.Input((None,), dtype="int32", name="words")
    x = layers.Embedding(50, 8, mask_zero=True)(words)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(3, dropout=0.2))(layers.Dropout(0.3)(x))
    model = keras.Model(words, layers.Dense(1, activation="sigmoid", name="liked")(x), name="reviews")
    model.compile("adam", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
    return model


def siamese() -> keras.Model:
    """Return a model that calls another one on each of two images."""
    image = keras.Input((8, 8, 1))
    x = layers.Conv2D(4, 3, activation="relu")(image)
    seen = keras.Model(image, layers.Dense(5)(layers.Flatten()(x)), name="seen")
    one, other = keras.Input((8, 8, 1), name="one"), keras.Input((8, 8, 1), name="other")
    distance = ops.sqrt(ops.sum((seen(one) - seen(other)) ** 2, axis=-1, keepdims=True) + 1e-6)
    same = layers.Dense(1, activation="sigmoid", name="same")(layers.BatchNormalization()(distance))
    model = keras.Model([one, other], same, name="siamese")
    model.compile(keras.optimizers.RMSprop(0.01), keras.losses.BinaryCrossentropy(label_smoothing=0.1))
    return model


def unet() -> keras.Model:
    """Return convolutions down and up again, with what was on the way beside what comes up."""
    image = keras.Input((16, 16, 3), name="image")
    x = layers.RandomRotation(0.1)(layers.RandomFlip("horizontal")(image))
    skipped = []
    for filters in (4, 8):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        skipped.append(x)
        x = layers.MaxPooling2D()(x)
    for filters, beside in zip((8, 4), reversed(skipped), strict=True):
        x = layers.Conv2DTranspose(filters, 3, strides=2, padding="same")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(layers.Concatenate()([x, beside]))
    model = keras.Model(image, layers.Conv2D(3, 1, activation="softmax", name="classes")(x), name="unet")
    model.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def transformer() -> keras.Model:
    """Return blocks with attention to what comes before, around which values pass."""
    words = keras.Input((7,), dtype="int32", name="words")
    x = layers.Embedding(30, 8)(words)
    for _ in range(2):
        seen = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1)(seen, training=True))
        thought = layers.Dense(8)(layers.Dense(16, activation="gelu")(x))
        x = layers.LayerNormalization(epsilon=1e-6)(x + thought)
    model = keras.Model(words, layers.Dense(3, name="kind")(layers.GlobalAveragePooling1D()(x)), name="gpt")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-3, weight_decay=0.01), loss)
    return model


def wide_and_deep() -> keras.Model:
    """Return numbers and words that are looked up, once as they are and once through layers."""
    age = keras.Input((1,), name="age")
    town = keras.Input((1,), dtype="string", name="town")
    job = keras.Input((1,), dtype="int64", name="job")
    scaled = layers.Normalization(mean=[40.0], variance=[100.0])(age)
    towns = layers.StringLookup(vocabulary=["Ulm", "Bonn"], output_mode="one_hot")(town)
    jobs = layers.Embedding(5, 3)(layers.IntegerLookup(vocabulary=[3, 5, 8])(job))
    crossed = layers.HashedCrossing(10, output_mode="one_hot")([town, job])
    deep = layers.Concatenate()([scaled, towns, layers.Flatten()(jobs)])
    for units in (8, 4):
        deep = layers.Dense(units, activation="relu")(deep)
    both = layers.Concatenate(name="both")([deep, crossed])
    model = keras.Model([age, town, job], layers.Dense(1, name="pay")(both), name="wide_and_deep")
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def timeseries() -> keras.Model:
    """Return convolutions over time that see further and further back, and several results by name."""
    x = series = keras.Input((12, 2), name="series")
    for rate in (1, 2, 4):
        y = layers.Conv1D(6, 2, padding="causal", dilation_rate=rate, activation="relu")(x)
        x = layers.Concatenate()([y, x])
    last = layers.GRU(4)(layers.SpatialDropout1D(0.2)(x))
    far = layers.Dense(3, name="far")(last)
    up = layers.Dense(1, activation="sigmoid", name="up")(last)
    beside = layers.Dense(2, name="beside")(last)  # without a loss
    model = keras.Model(series, {"far": far, "up": up, "beside": beside}, name="timeseries")
    model.compile(
        "adam", {"far": keras.losses.Huber(0.5), "up": "binary_crossentropy"}, loss_weights=[1, 0.2]
    )
    return model


def autoencoder() -> keras.Model:
    """Return a model of two models, of which one has a model inside."""
    inner = keras.Sequential(
        [keras.Input((6,)), layers.Dense(5, activation="tanh"), layers.Dense(4)], name="inner"
    )
    x = keras.Input((8,))
    encoder = keras.Model(x, layers.Dense(2, name="code")(inner(layers.Dense(6)(x))), name="encoder")
    decoder = keras.Sequential(
        [keras.Input((2,)), layers.Dense(6, activation="relu"), layers.Dense(8)], name="decoder"
    )
    row = keras.Input((8,), name="row")
    noisy = layers.GaussianNoise(0.1)(row)
    model = keras.Model(row, decoder(encoder(noisy)), name="autoencoder")
    model.compile(keras.optimizers.Nadam(0.01), keras.losses.MeanAbsoluteError())
    return model


def operators() -> keras.Model:
    """Return a model of operations and operators, with few layers."""
    x, y = keras.Input((4, 6), name="x"), keras.Input((6, 4), name="y")
    product = x @ y
    parts = ops.split(x, 2, axis=-1)
    chosen = ops.where(product > 0.0, product / 2.0, 1.0 - product)
    halves = ops.stack([parts[0], -parts[1]], axis=1)
    joined = ops.einsum("bij,bkjl->bkil", chosen, halves)
    flat = ops.reshape(ops.concatenate([joined, joined**2], axis=-1), (-1, 48))
    last = ops.maximum(flat[:, ::2], flat[:, 1::2]) + ops.mean(ops.abs(flat), axis=-1, keepdims=True)
    model = keras.Model([x, y], layers.Dense(2, name="out")(ops.clip(last, -3.0, 3.0)), name="operators")
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True), "mse")
    return model


def masks() -> keras.Model:
    """Return layers that are told what to look at, and whether they are trained."""
    series, there = keras.Input((5, 3), name="series"), keras.Input((5,), dtype="bool", name="there")
    x = layers.TimeDistributed(layers.Dense(4, activation="relu"))(layers.Masking(0.5)(series))
    seen, state = layers.GRU(4, return_sequences=True, return_state=True)(x)
    other = layers.SimpleRNN(4)(seen * 1.0, mask=there)
    looked = layers.Attention(use_scale=True)([seen, x])
    normal = layers.BatchNormalization()(layers.GlobalMaxPooling1D()(looked * 1.0), training=False)
    model = keras.Model([series, there], layers.Dense(2, name="y")(normal + other + state), name="masks")
    model.compile("adam", "mse")
    return model


def penalised() -> keras.Model:
    """Return layers with penalties, on weights that are trained and that are not, and on activations.

    Each call of a layer that is called twice has a penalty of its own.
    """
    kept = layers.Dense(4, kernel_regularizer="l2", trainable=False)
    first = layers.Dense(
        5,
        kernel_regularizer=keras.regularizers.L1L2(0.01, 0.01),
        bias_initializer="ones",
        bias_regularizer="l1",
    )
    row = keras.Input((4,), name="row")
    shared = layers.Dense(3, activity_regularizer="l2", kernel_constraint="max_norm")
    within, far, near = keras.Input((3,)), keras.Input((3,), name="far"), keras.Input((3,), name="near")
    inner = keras.Model(within, layers.ActivityRegularization(l1=0.1)(within), name="counted")
    pair = keras.Model([far, near], far - 2.0 * near, name="pair")
    seen = pair({"near": inner(shared(first(kept(row)))), "far": inner(shared(first(row + 1.0)))})
    model = keras.Model(row, seen, name="penalised")
    model.compile("adam", "mse")
    return model


def normed() -> keras.Model:
    """Return layers whose kernels are divided by their norms whenever the model is called to train."""
    row = keras.Input((6,), name="row")
    x = layers.SpectralNormalization(layers.Dense(5, activation="tanh", kernel_regularizer="l2"))(row)
    model = keras.Model(
        row, layers.SpectralNormalization(layers.Dense(2), power_iterations=2)(x), name="normed"
    )
    model.compile(keras.optimizers.AdamW(0.01, weight_decay=0.1), "mse")
    return model


def adapted() -> keras.Model:
    """Return a model with adapters that are not zero, a crop, a layer of two names, and cells."""
    image = keras.Input((8, 8, 3), name="image")
    x = layers.Reshape((12, 9))(layers.RandomCrop(6, 6, seed=1)(image))
    x = layers.GroupQueryAttention(4, 2, 1)(x, x)
    for _ in range(2):
        cells = [layers.GRUCell(3, dropout=0.1), layers.LSTMCell(2)]
        x = layers.TimeDistributed(layers.Dropout(0.1))(layers.RNN(cells, return_sequences=True)(x))
    inner = layers.Dense(3)
    x = inner(layers.GlobalAveragePooling1D()(x))
    inner.enable_lora(2)
    inner.lora_kernel_b.assign(ops.ones((2, 3)))
    model = keras.Model(image, layers.Dense(2, name="kind")(x), name="adapted")
    model.compile("sgd", "mse")
    return model


def activated() -> keras.Model:
    """Return layers whose activations are layers, which a spec has after them, and factors of channels."""
    image = keras.Input((6, 6, 2), name="image")
    x = layers.Rescaling([0.5, 2.0], offset=[0.0, -1.0])(image)
    x = layers.Conv2D(4, 3, activation=layers.LeakyReLU(0.1), name="seen")(x)
    x = layers.SeparableConv2D(4, 3, activation=layers.ELU())(x)
    x = layers.Dense(5, activation=layers.ReLU(6.0))(layers.Activation(layers.LeakyReLU())(x))
    kind = layers.Dense(3, activation=layers.Softmax(), name="kind")(layers.Flatten()(x))
    model = keras.Model(image, kind, name="activated")
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def counted() -> keras.Model:
    """Return layers that weigh words or cut numbers as `adapt` found them, and decay by names of layers.

    A weight begins at random numbers of its own, and a logarithm takes no negative numbers.
    """
    text, town = keras.Input((), dtype="string", name="text"), keras.Input((2,), dtype="string", name="town")
    price = keras.Input((1,), name="price")
    weighed = layers.TextVectorization(output_mode="tf_idf", ngrams=(1, 3))
    towns = layers.StringLookup(output_mode="tf_idf", max_tokens=9, pad_to_max_tokens=True)
    bins = layers.Discretization(num_bins=3, output_mode="one_hot")
    weighed.adapt(["a pair of shoes", "a hat"])
    towns.adapt([["Ulm", "Bonn"], ["Ulm", "Trier"]])
    bins.adapt([[1.0], [2.0], [4.0], [8.0]])
    seen = [weighed(text), towns(town), bins(price), ops.log(price)]
    x = layers.LayerNormalization(name="norm")(layers.Concatenate()(seen))
    sold = layers.Dense(1, bias_initializer=keras.initializers.RandomUniform(seed=1), name="sold")(x)
    model = keras.Model([text, town, price], sold, name="counted")
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["norm", "bias"])
    model.compile(optimizer, "mse")
    return model


MODELS = (
    text_classifier,
    siamese,
    unet,
    transformer,
    wide_and_deep,
    timeseries,
    autoencoder,
    operators,
    masks,
    penalised,
    normed,
    adapted,
    activated,
    counted,
)
FAST = (unet, operators, penalised, normed, adapted, activated, counted)
"""Those that `make test` runs: they take the least time, and have blocks, penalties and many operations."""


def there_and_back(model: keras.Model, folder: Path) -> tuple[Converted, ir.Spec, ir.Spec]:
    """Return the proved spec of a model, as it is read, and the spec of the model that it makes."""
    config, options = compiled_with(model), {"devices": {"cpu": 1}, "clones": 1}
    made = convert(model, config, source=model.name, stem=model.name, base=folder, **options)  # type: ignore[arg-type]
    first, again = folder / "first.tfdeploy", folder / "again.tfdeploy"
    first.write_text(made.text)
    spec = read(str(first)).spec
    assert spec is not None
    planned: Any = SimpleNamespace(plan=make_plan(spec, emulate=True), seed=1)
    back = plain_model(planned, uncreated=True).model
    again.write_text(text_of(draft(back, config, model.name), weights=None, **options))  # type: ignore[arg-type]
    second = read(str(again)).spec
    assert second is not None
    return made, spec, second


@pytest.mark.parametrize(
    "build", [pytest.param(each, marks=[] if each in FAST else pytest.mark.full) for each in MODELS]
)
def test_a_model_goes_there_and_back(tmp_path: Path, build: Callable[[], keras.Model]) -> None:
    """It gives the same outputs and the same weights after a step, and the same spec but for names."""
    made, first, second = there_and_back(build(), tmp_path)
    assert made.proof.largest <= 1e-4
    assert made.proof.step is not None
    assert outline(first) == outline(second)


def test_another_model_is_not_the_same_but_for_names(tmp_path: Path) -> None:
    """Another number of filters, a layer less, another source or another loss is seen, and a name is not."""
    model = unet()
    text = text_of(draft(model, compiled_with(model)), weights=None, devices={"cpu": 1}, clones=1)
    changes = {
        "image": "picture",
        "Conv2D(8, 3": "Conv2D(7, 3",
        "MaxPooling2D()": "AveragePooling2D(2)",
        "SparseCategoricalCrossentropy()": "SparseCategoricalCrossentropy(axis = 1)",
        "RMSprop(": "SGD(",
    }
    found = []
    for old, new in [("", ""), *changes.items()]:
        assert old in text
        path = tmp_path / "changed.tfdeploy"
        path.write_text(text.replace(old, new))
        text_read = read(str(path))
        assert text_read.spec is not None, text_read.diagnostics
        found.append(outline(text_read.spec))
    assert [each == found[0] for each in found] == [True, True, False, False, False, False]


def test_what_keras_has_for_the_process_is_written(tmp_path: Path) -> None:
    """A spec says it, because it does not depend on it: the order of axes, and the precision."""
    with unusual_keras():
        image = keras.Input((1, 6, 6), dtype="float32", name="image")
        x = layers.GlobalAveragePooling2D()(layers.MaxPooling2D()(image))
        model = keras.Model(image, layers.Dense(3, dtype="float32", name="kind")(x), name="unusual")
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        made, first, second = there_and_back(model, tmp_path)
    assert made.proof.largest <= 1e-3  # in float16
    assert "MaxPooling2D(data_format = channels_first)" in made.text
    assert "precision = mixed_float16" in made.text
    assert outline(first) == outline(second)


def test_what_the_module_of_a_model_sets_is_there_when_the_model_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts say the precision when they begin, and make the model in a function."""
    lines = ["import keras", "keras.config.set_dtype_policy('mixed_float16')", "def make():"]
    lines += ["    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])", ""]
    (tmp_path / "setting.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    with kept_keras():
        found = read_model("setting:make", allow_python=False)
    assert found.model.layers[0].dtype_policy.name == "mixed_float16"


@pytest.mark.full
def test_weights_of_16_bits_are_read_from_their_file(tmp_path: Path) -> None:
    """HDF5 has no bfloat16, which has no whole numbers for as many weights as this model has."""
    x = image = keras.Input((4,), name="image")
    for _ in range(135):
        x = layers.Dense(4, dtype="bfloat16")(x)
    model = keras.Model(image, layers.Dense(2, dtype="float32", name="kind")(x), name="deep")
    model.compile("sgd", "mse")
    made, first, second = there_and_back(model, tmp_path)
    assert made.proof.outputs == 0
    assert outline(first) == outline(second)
