"""`init --from`: specs from Keras models, which compute what the models compute."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import grammar
from compiler.graph.adapters.keras_private import compiled_with, flattened_layers
from compiler.graph.storage.export import plain_model
from compiler.graph.tower.network.keras_scope import stateless
from compiler.graph.tower.network.precision import WIDE, keras_settings
from dsl.diagnostics import RunError
from dsl.errors.running import step_failed
from tests.cli.conftest import Command
from tests.folders import ROOT
from tests.support import refusal
from tfdeploy import compile as compile_spec
from tfdeploy import from_keras, load
from tfdeploy.onramp import proof as proofs
from tfdeploy.onramp.convert import convert
from tfdeploy.onramp.reading import read_model
from tfdeploy.onramp.writing import draft, text_of
from tfdeploy.runtime.verify.compare import Trajectory

Golden = Callable[[str, str], None]

ZOO = sorted(path.stem for path in (ROOT / "examples" / "zoo").glob("*.tfdeploy"))


def convnet() -> keras.Model:
    """Return a small compiled model."""
    image = keras.Input((8, 8, 1), name="image")
    x = layers.Conv2D(3, 3, activation="relu", name="conv1")(image)
    x = layers.MaxPooling2D(2, strides=2)(layers.BatchNormalization()(x))
    x = layers.Dropout(0.4)(layers.Flatten()(x))
    model = keras.Model(image, layers.Dense(5, name="logits")(x), name="convnet")
    rate = keras.optimizers.schedules.CosineDecay(0.01, 100)
    model.compile(
        optimizer=keras.optimizers.SGD(rate, momentum=0.9, clipnorm=1.0, use_ema=True, ema_momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def test_a_saved_model_becomes_what_a_person_would_have_written(
    command: Command, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both files of Keras give the same spec, which trains from the model's weights; nothing is replaced."""
    monkeypatch.chdir(command.directory)
    model = convnet()
    model.save(command.directory / "convnet.keras")
    model.save(command.directory / "old.h5")
    done = command("init", "--from", "convnet.keras", "--devices", "cpu=2", "--clones", "2")
    assert done.code == 0
    assert "The same as the model" in done.out
    text = command.read("convnet.tfdeploy")
    golden("onramp/convnet_of_two_clones.tfdeploy", text)
    assert list(grammar.read(command.directory / "convnet.tfdeploy").diagnostics) == []
    assert command("init", "--from", "old.h5").code == 0
    model_of = [
        each[each.index("model") : each.index("data {")] for each in (text, command.read("old.tfdeploy"))
    ]
    assert model_of[0].replace("convnet", "") == model_of[1].replace("convnet", "").replace("old", "")
    compiled = compile_spec(load("convnet.tfdeploy"), emulate=True)
    from compiler.graph.storage.weight_files import read_weights

    kept = read_weights(compiled, command.directory / "convnet.weights.h5", None, base=".")
    assert np.array_equal(kept["conv1/kernel"], np.asarray(model.get_layer("conv1").kernel))
    again = command("init", "--from", "convnet.keras")
    assert again.code == 2
    assert "TFD753" in again.err
    assert command.read("convnet.tfdeploy") == text


def graphs() -> keras.Model:
    """Return a graph of shared layers and models, masks, operators, indices and wrapped layers."""
    words, number = keras.Input((6,), dtype="int32", name="words"), keras.Input((3,), name="number")
    table = layers.Embedding(11, 4, mask_zero=True, name="table")
    encoder = keras.Sequential([keras.Input((4,)), layers.Dense(4), layers.Dense(3)], name="encoder")
    seen = layers.Bidirectional(layers.LSTM(2), name="both")(table(words))
    one, other = encoder(seen), encoder(seen * 2.0)
    parts = keras.ops.split(one, 3, axis=-1)
    mixed = one[:, :1] + keras.ops.mean(other, axis=-1, keepdims=True) * (parts[0] - 1.0)
    scaled = ((number[:, :3] + 1.0) * 2.0 - 3.0) * 4.0 + 5.0  # too long for a line
    known = layers.Concatenate()([mixed, scaled])
    outputs = {"far": layers.Dense(1, name="far")(known), "near": layers.Dense(2, name="near")(known)}
    model = keras.Model([words, number], outputs, name="graphs")
    losses = {"far": "mse", "near": keras.losses.CategoricalCrossentropy()}
    model.compile("adam", losses, loss_weights={"far": 0.5, "near": 1.0})
    return model


def compiled() -> keras.Model:
    """Return losses by the keys of outputs, weighted metrics, weights of losses, and what does not decay."""
    x = keras.Input((4,), name="x")
    far, near = layers.Dense(1, name="one")(x), layers.Dense(3, name="three")(x)
    model = keras.Model(x, {"near": near, "far": far}, name="compiled")
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    model.compile(
        optimizer,
        {"far": "mse", "near": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        loss_weights={"far": 0.5, "near": 2.0},
        metrics={"near": ["accuracy"]},
        weighted_metrics={"near": ["accuracy"], "far": [keras.metrics.MeanAbsoluteError(name="off")]},
    )
    return model


def folded() -> keras.Model:
    """Return parts that occur again, once with another size."""
    x = image = keras.Input((4,), name="image")
    for at, units in enumerate((8, 8, 8, 6), 1):
        y = layers.Dense(units, activation="relu", name=f"unit{at}_wide")(x)
        y = layers.LayerNormalization(name=f"unit{at}_norm")(y)
        y = layers.Dense(2 * units, name=f"unit{at}_narrow")(y)
        x = layers.Add(name=f"unit{at}_sum")([y, layers.Dense(2 * units, name=f"unit{at}_short")(x)])
    return keras.Model(image, layers.Dense(2, name="y")(x), name="folded")


def named() -> keras.Model:
    """Return parts that differ in sizes, rates, kernels and parts of lists, some of them of two layers."""
    x = image = keras.Input((8, 8, 3), name="image")
    sizes = [(8, (1, 3), 0.1), (10, (3, 1), 0.2), (12, (1, 5), 0.3), (14, (5, 1), 0.4)]
    for at, (wide, kernel, rate) in enumerate(sizes, 1):
        y = layers.Conv2D(6 * wide, kernel, padding="same", name=f"part{at}_expand")(x)
        y = layers.Reshape((64, 6 * wide), name=f"part{at}_flat")(y)
        y = layers.Dropout(rate, noise_shape=(None, 1, 1), name=f"part{at}_drop")(y)
        y = layers.Reshape((8, 8, 6 * wide), name=f"part{at}_image")(y)
        x = layers.Conv2D(wide + at, 1, name=f"part{at}_project")(y)
    return keras.Model(image, layers.Flatten()(x), name="named")


def learnt() -> keras.Model:
    """Return layers with vocabularies and statistics of `adapt`."""
    city, code = keras.Input((1,), dtype="string", name="city"), keras.Input((1,), dtype="int64", name="code")
    number = keras.Input((2,), name="number")
    words, codes = layers.StringLookup(name="words"), layers.IntegerLookup(name="codes")
    scaled = layers.Normalization(name="scaled")
    words.adapt(["x", "y", "y"])
    codes.adapt([7, 9, 9])
    scaled.adapt(np.array([[1.0, 2.0], [3.0, 6.0]]))
    parts = [layers.Flatten()(layers.Embedding(3, 2)(each)) for each in (words(city), codes(code))]
    output = layers.Dense(1, name="y")(layers.Concatenate()([*parts, scaled(number)]))
    return keras.Model([city, code, number], output, name="learnt")


@pytest.mark.family(every=3)
@pytest.mark.parametrize("build", [graphs, compiled, folded, named, learnt])
def test_models_are_written_as_people_would(
    tmp_path: Path, golden: Golden, build: Callable[[], keras.Model]
) -> None:
    """From memory, and from a file, which alone does not say what does not decay."""
    keras.utils.clear_session()  # it numbers layers without names by what has been made before
    model = build()
    made = convert(model, source=model.name, stem=model.name, base=tmp_path)
    golden(f"onramp/{model.name}.tfdeploy", made.text)
    assert made.proof.largest <= 1e-4
    model.save(tmp_path / "m.keras")
    found = read_model(str(tmp_path / "m.keras"), allow_python=False)
    again = convert(found.model, found.config, source=model.name, stem=model.name, base=tmp_path).text
    assert again == made.text.replace(', exclude_from_weight_decay = ["*/bias"]', "")


def test_all_that_cannot_be_written_is_named_at_once(command: Command) -> None:
    """Each layer by its name, with the reason, and each part of `compile`; nothing is written."""
    (command.directory / "mine.py").write_text(
        "import keras\n"
        "x = keras.Input((4,))\n"
        "class Own(keras.Layer):\n"
        "    def __init__(self, table, **more):\n"
        "        super().__init__(**more)\n"
        "        self.table = table\n"
        "    def get_config(self):\n"
        "        return {**super().get_config(), 'table': self.table}\n"
        "    def call(self, x):\n"
        "        return x\n"
        "y = keras.layers.Lambda(lambda x: x + 1, name='plus')(x)\n"
        "z = keras.layers.StringLookup(name='empty')\n"
        "w = keras.Input((2,), dtype='string')\n"
        "eight = keras.layers.Dense(2, name='eight')\n"
        "v = eight(keras.layers.Dense(2, lambda x: x, name='doing')(x))\n"
        "eight.quantize('int8')\n"
        "pair = keras.Sequential([keras.layers.Dense(2)])\n"
        "u = keras.layers.TimeDistributed(pair, name='each')(keras.layers.Reshape((2, 1))(v))\n"
        "model = keras.Model([x, w], [Own({'a': 1}, name='own')(y), z(w), u])\n"
        "model.compile('sgd', [lambda a, b: b, None, None], metrics=[[lambda a, b: b], [], []])\n"
    )
    done = command("init", "--from", "mine:model")
    assert done.code == 2
    assert "TFD791" in done.err
    for name in ("`plus`", "`own`", "`empty`", "`compile: loss of own`"):
        assert name in done.err
    assert "`doing`: its argument `activation` is an object of Python" in done.err
    assert "`eight`: `Dense` with `quantization_config`" in done.err
    assert "`each`: it wraps a model" in done.err
    assert not (command.directory / "model.tfdeploy").exists()
    (command.directory / "other.py").write_text(
        "import keras\n"
        "x = keras.Input((4,))\n"
        "model = keras.Model(x, {'y': keras.layers.Dense(1)(x)})\n"
        "model.compile('sgd', {'z': 'mse'})\n"
    )
    done = command("init", "--from", "other:model")
    assert "`compile: z`: the model has no output of this name" in done.err
    (command.directory / "twice.py").write_text(
        "import keras\n"
        "x = keras.Input((4,))\n"
        "y = keras.layers.Dense(1)(x)\n"
        "model = keras.Model(x, [y, y], name='both')\n"
    )
    done = command("init", "--from", "twice:model")
    assert "`both`: one tensor is two of its outputs" in done.err
    (command.directory / "numbers.py").write_text(
        "import keras\n"
        "x = keras.Input((4,))\n"
        "y = keras.layers.Add(name='sum')([x, keras.ops.ones((1, 4))])\n"
        "z = keras.layers.ReLU(float('inf'), name='kept')(keras.ops.where(x > 0, x, float('-inf')))\n"
        "model = keras.Model(x, [y, z, keras.layers.Discretization(num_bins=2, name='bins')(x)])\n"
        "bare = keras.Sequential([keras.layers.Dense(2)], name='bare')\n"
    )
    done = command("init", "--from", "numbers:model")
    assert "`sum`: a number or an array is among the tensors that flow into it" in done.err
    assert "`where`: `-inf` has no notation" in done.err
    assert "`kept`: `inf` has no notation" in done.err
    assert "`bins`: it has no boundaries: adapt it first" in done.err
    done = command("init", "--from", "numbers:bare")
    assert "`bare`: it has no inputs: begin it with `keras.Input`" in done.err


def own_step() -> keras.Model:
    """Return a functional model that is trained in another way."""

    class Own(keras.Model):
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    x = keras.Input((4,), name="x")
    return Own(x, layers.Dense(2)(x), name="own")


def own_call() -> keras.Model:
    """Return a model with a sequential one inside, which does more than its layers."""

    class Own(keras.Sequential):
        def call(self, x: Any, training: bool | None = None, mask: Any = None) -> Any:
            return 2 * super().call(x, training=training, mask=mask)

    x = keras.Input((4,), name="x")
    return keras.Model(x, Own([keras.Input((4,)), layers.Dense(2)], name="own")(x))


def frozen_bias() -> keras.Model:
    """Return a layer with one weight that is not trained."""
    x, layer = keras.Input((4,), name="x"), layers.Dense(2, name="half")
    model = keras.Model(x, layer(x))
    layer.bias.trainable = False
    return model


def frozen_around() -> keras.Model:
    """Return a model that is not trained, although a layer of it would be."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2), layers.Dense(2, name="last")])
    model.trainable = False
    model.layers[-1].trainable = True
    return model


def borrowed() -> keras.Model:
    """Return a model that multiplies with the weight of a layer."""
    x, layer = keras.Input((2,), name="x"), layers.Dense(2)
    return keras.Model(x, keras.ops.matmul(layer(x), layer.kernel))


def trained_with(loss: Any, metric: Any = None) -> Callable[[], keras.Model]:
    """Return what makes a model that is compiled with a loss and a metric."""

    def build() -> keras.Model:
        x = keras.Input((4,), name="x")
        model = keras.Model(x, layers.Dense(3, "sigmoid", name="y")(x), name="small")
        model.compile("sgd", loss, metrics=[metric] if metric else None)
        return model

    return build


LOST = {
    "step": (own_step, "`own`: its `train_step` is Python code"),
    "call": (own_call, "`own`: its `call` is Python code"),
    "weight": (frozen_bias, "only the spec or only the model trains `half/bias`"),
    "model": (frozen_around, "only the spec or only the model trains `last/"),
    "borrowed": (borrowed, "`matmul`: it works with a weight of a layer"),
    "either loss": (trained_with("crossentropy"), "what `crossentropy` is depends on the labels"),
    "no loss": (trained_with("squared"), "Keras has no loss `squared`"),
    "sign": (
        trained_with("mse", keras.losses.cosine_similarity),
        "metric cosine_similarity`: it is the negative",
    ),
}


OF_ONES_OWN = """\
import keras
from keras import layers


class Scale(layers.Layer):
    def __init__(self, factor=1.0, **more):
        super().__init__(**more)
        self.factor = factor

    def build(self, shape):
        self.weight = self.add_weight(shape=shape[-1:], initializer="ones", name="weight")

    def call(self, x):
        return x * self.factor * self.weight


class Forgetful(Scale):
    def get_config(self):
        return layers.Layer.get_config(self)


class Counter(keras.metrics.Metric):
    def __init__(self, by=1.0, name="counter", **more):
        super().__init__(name=name, **more)
        self.by, self.count = by, self.add_weight(initializer="zeros", name="count")

    def update_state(self, target, prediction, sample_weight=None):
        self.count.assign_add(self.by)

    def result(self):
        return self.count


def made(layer=Scale, by=1.0):
    x = keras.Input((4,), name="x")
    y = layer(2.0, trainable=False, name="frozen")(Scale(dtype="float64", name="wide")(x))
    model = keras.Model(x, layers.Dense(2, name="y")(y))
    model.compile("sgd", "mse", metrics=[Counter(by)])
    return model


def forgetful():
    return made(Forgetful)


def counting():
    return made(by=3.0)


layer = Scale()
"""


def test_a_class_of_ones_own_keeps_all_that_it_was_given(command: Command) -> None:
    """Whether it is trained and its precision too; what its configuration lacks is named."""
    (command.directory / "own.py").write_text(OF_ONES_OWN)
    done = command("init", "--from", "own:made")
    assert done.code == 0, done.err
    text = command.read("made.tfdeploy")
    assert 'python("own:Scale", factor = 1.0, dtype = "float64", name = "wide")' in text
    assert 'python("own:Scale", factor = 2.0, trainable = false, name = "frozen")' in text
    assert 'counter = [label, y] -> python("own:Counter")' in text
    for name, said in [
        ("forgetful", "`frozen`: its `get_config` does not say what `factor` is"),
        ("counting", "`compile: metric counter`: its `get_config` does not say what `by` is"),
        ("layer", "it is a `Scale`, and no Keras model"),
    ]:
        done = command("init", "--from", f"own:{name}")
        assert done.code == 2
        assert said in done.err
        assert not (command.directory / f"{name}.tfdeploy").exists()


def test_masks_that_attention_is_given_stay(tmp_path: Path) -> None:
    """Those that no layer has attached to its tensors."""
    x, known = keras.Input((5, 4), name="x"), keras.Input((5,), dtype="bool", name="known")
    y = layers.MultiHeadAttention(1, 3)(x, x, query_mask=known, value_mask=known)
    model = keras.Model([x, known], layers.Dense(2)(layers.Flatten()(y)))
    made = convert(model, source="model", stem="model", base=tmp_path)
    assert "MultiHeadAttention(1, 3)(query_mask = known, value_mask = known)" in made.text


def test_a_precision_is_written_after_models_of_another_one_too() -> None:
    """A layer in float32 says so in a model of float16, but not in others."""
    for policy, written in (("float32", "Dense(3)"), ("mixed_float16", "Dense(3, dtype = float32)")):
        x = keras.Input((4,), name="x")
        y = layers.Dense(3, dtype="float32")(layers.Dense(5, dtype=policy)(x))
        made = draft(keras.Model(x, y), {})
        assert written in text_of(made, weights=None, devices={}, clones=None)


@pytest.mark.parametrize("name", LOST)
def test_nothing_is_left_out_in_silence(tmp_path: Path, name: str) -> None:
    """What neither the layers nor the configuration of a model show."""
    build, said = LOST[name]
    found = refusal(convert, build(), source="model", stem="model", base=tmp_path)
    assert said in " ".join([found.code, found.message, *found.notes])
    assert found.code == "TFD791"


def test_a_model_inside_that_is_frozen_stays_so(tmp_path: Path) -> None:
    """Even if a layer of it is not."""
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(3, name="q")], name="inner")
    inner.trainable = False
    inner.layers[-1].trainable = True
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.Dense(2)(inner(x)))
    proof = convert(model, source="model", stem="model", base=tmp_path).proof
    assert proof.step.largest <= 1e-4


@pytest.mark.parametrize("word", ["accuracy", "Accuracy", "ACC"])
def test_accuracy_of_several_classes_is_that_of_the_largest(word: str) -> None:
    """Also with a binary loss, as in Keras, which looks at the shapes alone."""
    model = trained_with("binary_crossentropy", word)()
    written = draft(model, compiled_with(model)).training.metrics[0]
    x, target = np.random.default_rng(1).random((8, 4)), np.eye(3)[np.arange(8) % 3]
    metric = getattr(keras.metrics, written.objective.call.name)()
    metric.update_state(target, model(x))
    assert (written.name, written.objective.call.name) == (word, "CategoricalAccuracy")
    assert float(metric.result()) == model.evaluate(x, target, verbose=0, return_dict=True)[word]


@pytest.mark.parametrize("ending", [".keras", ".h5"])
def test_functions_of_keras_are_read_from_files(tmp_path: Path, ending: str) -> None:
    """As a loss and as a metric, as they are from memory."""
    path = tmp_path / f"functions{ending}"
    trained_with(keras.losses.mean_squared_error, keras.metrics.categorical_accuracy)().save(path)
    found = read_model(str(path), allow_python=False)
    training = draft(found.model, found.config).training
    called = [each.objective.call.name for each in (*training.metrics, training.loss[0])]
    assert called == ["CategoricalAccuracy", "MeanSquaredError"]


def test_what_a_spec_cannot_say_of_training_is_told() -> None:
    """Metrics of outputs without a loss, and how a loss is scaled; a limit of zero is none."""
    x = keras.Input((4,), name="x")
    model = keras.Model(x, {"a": layers.Dense(1, name="a")(x), "b": layers.Dense(1, name="b")(x)})
    inner = keras.optimizers.SGD(0.1, clipnorm=0.0)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)
    model.compile(optimizer, {"a": "mse"}, metrics={"b": ["mae"]}, weighted_metrics={"b": ["mse"]})
    training = draft(model, compiled_with(model)).training
    assert training.lost == [
        "`mae` of b is left out: the output has no loss.",
        "`mse` of b is left out: the output has no loss.",
        "`initial_scale` is left out: `precision = mixed_float16` scales by itself.",
    ]
    assert set(training.update) == {"optimizer"}


WITHIN = """\
import keras
from keras import layers, ops


class Block(layers.Layer):
    def __init__(self, units, rate=0.5):
        super().__init__()
        self.units, self.rate = units, rate
        self.seen = layers.MultiHeadAttention(2, units, dropout=rate)
        self.inner = keras.Sequential([layers.GaussianNoise(rate), layers.Dense(units), layers.Dropout(rate)])

    def call(self, x):
        return x + self.inner(self.seen(x, x))


class Warm(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate / (ops.cast(step, "float32") + 2.0)

    def get_config(self):
        return {"rate": self.rate}


class Ones(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return ops.ones(shape, dtype)


class Descent(keras.optimizers.SGD):
    pass


class Liar(layers.Layer):
    scale = 1.0

    def call(self, x):
        return self.scale * x


class Noise(layers.Layer):
    def __init__(self, always=False, **more):
        super().__init__(**more)
        self.always, self.seeds = always, keras.random.SeedGenerator(3)

    def call(self, x, training=False):
        return x + keras.random.normal(ops.shape(x), seed=self.seeds) if training or self.always else x


def bent(x):
    return ops.tanh(x) / 2.0


def made(last=None, optimizer=None):
    x = keras.Input((3, 4), name="x")
    y = layers.Dense(4, bent, kernel_initializer=Ones())(Block(4)(x))
    model = keras.Model(x, layers.Dense(2, name="y")(y if last is None else last(y)))
    model.compile(optimizer or keras.optimizers.Adam(Warm(0.1)), "mse")
    return model


def liar():
    model = made(Liar())
    model.layers[-2].scale = 2.0
    return model


def noisy():
    return made(Noise())


def always():
    return made(Noise(True))


def own():
    return made(optimizer=Descent(0.1, clipnorm=1.0))
"""


def test_what_of_ones_own_is_inside_layers_is_found(command: Command) -> None:
    """Functions, initializers, schedules and optimizers; dropout inside layers is off for the proof."""
    (command.directory / "within.py").write_text(WITHIN)
    done = command("init", "--from", "within:made")
    assert done.code == 0, done.err
    assert "after a step of training" in done.out
    assert "tfdeploy compile-and-run made.tfdeploy --allow-python" in done.out
    text = command.read("made.tfdeploy")
    assert '-> python("within:Block", units = 4, rate = 0.5)' in text
    dense = 'activation = python("within:bent"), kernel_initializer = python("within:Ones")'
    assert f"-> Dense(4, {dense})" in text
    assert 'optimizer = Adam(python("within:Warm", rate = 0.1))' in text
    done = command("init", "--from", "within:own")
    assert done.code == 0, done.err
    assert 'python("within:Descent", learning_rate = 0.1, ' in command.read("own.tfdeploy")
    assert "clipnorm" not in command.read("own.tfdeploy")
    assert "clip = norm(1.0)" in command.read("own.tfdeploy")


def test_the_model_itself_is_compared_where_layers_may_hide_something(command: Command) -> None:
    """What no configuration says is in no copy of it. Random numbers are said not to be compared."""
    (command.directory / "within.py").write_text(WITHIN)
    done = command("init", "--from", "within:liar")
    assert done.code == 2
    assert "some `get_config` is incomplete" in done.err
    done = command("init", "--from", "within:noisy")
    assert done.code == 0, done.err
    assert "but no step of training was compared: a layer draws random numbers" in done.out
    assert 'python("within:Noise", always = false)' in command.read("noisy.tfdeploy")
    done = command("init", "--from", "within:always")
    assert done.code == 2
    assert "`within:always` has what the language cannot say" in done.err
    assert "TFD527: `within:Noise` draws random numbers also when the model predicts" in done.err
    assert "let its `call` take the argument `training`" in done.err


@pytest.mark.parametrize("ending", [".keras", ".h5"])
def test_what_a_file_leaves_out_is_told(tmp_path: Path, ending: str) -> None:
    """Keras takes its defaults for it, and a trained optimizer begins anew."""
    model = trained_with(keras.losses.Huber(0.3))()
    path = tmp_path / f"huber{ending}"
    model.save(path)
    found = read_model(str(path), allow_python=False)
    left_out = "`delta` of `Huber` is the default: files of Keras leave it out."
    assert draft(found.model, found.config).training.lost == [left_out]
    model.fit(np.ones((4, 4)), np.ones((4, 3)), batch_size=2, verbose=0)
    anew = "The optimizer begins anew, although it has made 2 steps."
    assert draft(model, compiled_with(model)).training.lost == [anew]
    model.save(path)
    found = read_model(str(path), allow_python=False)
    assert draft(found.model, found.config).training.lost == [left_out, anew]


def test_optimizers_and_losses_are_read_from_files(tmp_path: Path) -> None:
    """Also those that `keras.optimizers.get` and `keras.losses.get` do not know, or take apart."""
    for loss, optimizer in (
        (keras.losses.CategoricalGeneralizedCrossEntropy(), keras.optimizers.Lamb(0.01)),
        ("mse", keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01))),
    ):
        model = trained_with(loss)()
        model.compile(optimizer, loss)
        model.save(tmp_path / "saved.keras")
        found = read_model(str(tmp_path / "saved.keras"), allow_python=False)
        made = convert(found.model, found.config, source="saved", stem="saved", base=tmp_path)
        assert "optimizer = Lamb(0.01)" in made.text or "optimizer = Adam(0.01)" in made.text


def test_what_cannot_be_read_from_a_file_is_said_in_words(tmp_path: Path) -> None:
    """A function of the user's, of which a file has only the name, and a layer that remembers batches."""

    def bent(x: Any) -> Any:
        return keras.ops.tanh(x)

    x = keras.Input((3, 2), batch_size=2)
    keras.Model(x, layers.Dense(2, bent)(x)).save(tmp_path / "bent.keras")
    found = refusal(read_model, str(tmp_path / "bent.keras"), allow_python=False)
    assert "the function `bent` is yours, and a file does not say where it is" in found.message
    keras.Model(x, layers.GRU(2, stateful=True, name="gru")(x)).save(tmp_path / "gru.keras")
    found = refusal(read_model, str(tmp_path / "gru.keras"), allow_python=False)
    assert (found.code, found.notes) == (
        "TFD791",
        ("`gru` is `stateful`: a spec keeps nothing of a batch for the next one",),
    )


OWN = """\
import keras


class Scale(keras.Layer):
    def __init__(self, factor, **more):
        super().__init__(**more)
        self.factor = factor

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}

    def call(self, x):
        return x * self.factor


class Cubed(keras.Loss):
    def call(self, target, prediction):
        return keras.ops.mean(keras.ops.abs(target - prediction) ** 3, axis=-1)


def make():
    x = keras.Input((4,), name="x")
    model = keras.Model(x, keras.layers.Dense(2, name="y")(Scale(3.0, name="scale")(x)))
    model.compile("sgd", Cubed(), metrics=["mae"])
    return model
"""


def test_a_layer_of_ones_own_is_named_by_its_module(command: Command) -> None:
    """Its class is imported again, from beside the spec; a file that names it needs `--allow-python`."""
    (command.directory / "mine.py").write_text(OWN)
    done = command("init", "--from", "mine:make", "mine.tfdeploy")
    assert done.code == 0
    assert '-> python("mine:Scale", factor = 3.0' in command.read("mine.tfdeploy")
    assert '-> python("mine:Cubed"' in command.read("mine.tfdeploy")
    assert "mae = [label, y] -> MeanAbsoluteError()" in command.read("mine.tfdeploy")
    assert command("check", "mine.tfdeploy", "--allow-python").code == 0


def test_a_spec_that_computes_something_else_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the outputs of the model are made other ones."""
    largest = proofs._largest
    monkeypatch.setattr(proofs, "_largest", lambda found, given: largest(found, [each + 1 for each in given]))
    with pytest.raises(RunError, match="TFD791"):
        convert(convnet(), source="model", stem="model", base=tmp_path)


def test_the_text_is_there_from_python_too(tmp_path: Path) -> None:
    """With a file of weights if one is wanted. The model stays as it is."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, name="y")], name="tiny")
    before = model.get_weights()
    text = from_keras(model, weights=tmp_path / "tiny.weights.h5", devices={"gpu": 2})
    assert 'model "tiny" {' in text
    assert 'weights = "tiny.weights.h5"' in text
    assert "gpu = 2" in text
    assert "# loss = [label, y] -> SparseCategoricalCrossentropy()" in text
    assert (tmp_path / "tiny.weights.h5").is_file()
    assert all(np.array_equal(*pair) for pair in zip(before, model.get_weights(), strict=True))
    with pytest.raises(RunError, match="TFD753"):
        from_keras(model, weights=tmp_path / "tiny.weights.h5")


def _changed(path: Path, change: object) -> None:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["config.json"] = change(json.loads(parts["config.json"]))  # type: ignore[operator]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def _foreign(config: dict[str, object]) -> bytes:
    config["config"]["layers"][1].update(module="os", class_name="system", registered_name="os>system")  # type: ignore[index]
    return json.dumps(config).encode()


def _huge(config: dict[str, object]) -> bytes:
    config["config"]["layers"][1]["config"]["units"] = 10**12  # type: ignore[index]
    return json.dumps(config).encode()


CHANGES = {
    "no JSON": (lambda _: b"{", "is no JSON"),
    "nested": (lambda _: b"[" * 100_000, "nested too deeply"),
    "a list": (lambda _: b"[1, 2]", "not that of a model"),
    "numbers": (lambda _: b'{"class_name": 3, "config": {}}', "whose layers are in Python code"),
    "wrong types": (lambda _: b'{"class_name": "Functional", "config": {"layers": 7}}', "does not read it"),
    "code": (_foreign, "names code that is not of Keras"),
    "huge": (_huge, "TFD790"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_hostile_file_is_refused(tmp_path: Path, name: str) -> None:
    """With a message; nothing of it is run, and no memory is taken for weights that it lacks."""
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((4,)), layers.Dense(2)]).save(path)
    change, said = CHANGES[name]
    _changed(path, change)
    found = refusal(read_model, str(path), allow_python=False)
    assert said in f"{found.code} {found.message}"


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut off"])
@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    """Whatever it ends in."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RunError, match="TFD790"):
        read_model(str(tmp_path / name), allow_python=False)


def _weights(path: Path, shape: tuple[int, ...], *, written: bool = False) -> bytes:
    """Return the weights of a file with another kernel, of zeros."""
    with zipfile.ZipFile(path) as archive:
        store = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(store, "a") as file:
        del file["layers/dense/vars/0"]
        kernel = file.create_dataset("layers/dense/vars/0", shape, "f4", chunks=True, compression="gzip")
        if written:
            kernel[...] = 0
    return store.getvalue()


def test_weights_that_are_not_those_of_the_model_are_refused(tmp_path: Path) -> None:
    """Of another shape, or far more than the layers need, which would take memory."""
    keras.Sequential([keras.Input((4,)), layers.Dense(2)]).save(tmp_path / "model.keras")
    path = tmp_path / "changed.keras"
    for shape, written, said in [
        ((4, 3), True, "value.shape=(4, 3)"),
        ((4, 400_000_000), False, "which is not plausible"),
        ((4, 20_000_000), True, "its layers need 10 numbers, and it has 80,00"),
    ]:
        with zipfile.ZipFile(tmp_path / "model.keras") as archive, zipfile.ZipFile(path, "w") as changed:
            for each in archive.namelist():
                own = each == "model.weights.h5"
                data = (
                    _weights(tmp_path / "model.keras", shape, written=written) if own else archive.read(each)
                )
                changed.writestr(each, data)
        with pytest.raises(RunError, match="TFD790") as caught:
            read_model(str(path), allow_python=False)
        assert said in caught.value.diagnostic.message


def test_a_strange_file_of_the_older_format_is_refused(tmp_path: Path) -> None:
    """With training that is no JSON, or a Lambda, which is code."""
    x = keras.Input((4,))
    keras.Model(x, layers.Dense(2)(x)).save(tmp_path / "model.h5")
    with h5py.File(tmp_path / "model.h5", "a") as file:
        file.attrs["training_config"] = "{"
    with pytest.raises(RunError, match="TFD790") as caught:
        read_model(str(tmp_path / "model.h5"), allow_python=False)
    assert "is no JSON" in caught.value.diagnostic.message
    for name in ("lambda.h5", "lambda.keras"):
        keras.Model(x, layers.Lambda(lambda x: x)(x)).save(tmp_path / name)
        with pytest.raises(RunError, match=f"TFD791: `{tmp_path / name}` has what"):
            read_model(str(tmp_path / name), allow_python=False)


@pytest.mark.full
@pytest.mark.parametrize("name", ZOO[::3])
def test_the_zoo_goes_there_and_back(tmp_path: Path, name: str) -> None:
    """Spec, Keras model, file, spec again."""
    compiled = compile_spec(load(ROOT / "examples" / "zoo" / f"{name}.tfdeploy"), emulate=True)
    plain_model(compiled).model.save(tmp_path / "model.keras")
    found = read_model(str(tmp_path / "model.keras"), allow_python=False)
    made = convert(found.model, found.config, source=name, stem=name, base=tmp_path)
    assert made.proof.largest <= 1e-4


@pytest.mark.full
@pytest.mark.parametrize("name", ["MobileNetV3Small", "DenseNet121"])
def test_models_of_keras_become_specs(tmp_path: Path, name: str) -> None:
    """Networks of hundreds of layers."""
    size = None if name == "MobileNetV3Small" else 64  # of any size, it is proved with larger images
    model = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), classes=10)
    assert convert(model, source=name, stem=name, base=tmp_path).proof.largest <= 1e-4


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "lines", "blocks"),
    [
        ("ResNet50", 90, ["conv_block", "conv"]),
        ("MobileNetV2", 105, ["block", "block_pad", "expanded_conv"]),
        ("DenseNet201", 95, ["conv_block", "conv"]),
        ("EfficientNetB0", 125, ["block_a", "block_b", "block_a_expand"]),
    ],
)
def test_large_networks_have_few_lines(name: str, lines: int, blocks: list[str]) -> None:
    """What people would write, not what a graph has: few lines, and names for what there is."""
    made = draft(getattr(keras.applications, name)(weights=None), {})
    text = text_of(made, weights="w.weights.h5", devices={}, clones=None)
    assert text.count("\n") <= lines
    assert [each.name for each in made.layers][: len(blocks)] == blocks
    parameters = {each.name for layer in made.layers for each in layer.parameters}
    assert not [each for each in parameters if each.rpartition("_")[2].isdigit()]


def large_lookups() -> keras.Model:
    """Return look-ups of more words than a spec has, learnt and given."""
    text, code = keras.Input((), dtype="string", name="text"), keras.Input((1,), dtype="int64", name="code")
    words = layers.TextVectorization(output_sequence_length=4, name="words")
    words.adapt([" ".join(f"w{at}" for at in range(1200))])
    codes = layers.IntegerLookup(vocabulary=list(range(7, 2500, 2)), name="codes")
    seen = layers.GlobalAveragePooling1D()(layers.Embedding(1300, 2)(words(text)))
    number = layers.Flatten()(layers.Embedding(1300, 2)(codes(code)))
    model = keras.Model([text, code], layers.Dense(1, name="y")(seen + number), name="large")
    model.compile("sgd", "mse")
    return model


@pytest.mark.full
def test_large_vocabularies_go_into_files_beside_the_spec(command: Command) -> None:
    """Also from Python, beside the weights; a file that is there stays, and nothing else is written."""
    large_lookups().save(command.directory / "large.keras")
    folder = command.directory / "specs"
    folder.mkdir()
    (folder / "large.codes.txt").write_text("mine")
    refused = command("init", "--from", "large.keras", "specs/large.tfdeploy")
    assert refused.code == 2
    assert "TFD753" in refused.err
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"large.codes.txt": "mine"}
    (folder / "large.codes.txt").unlink()
    text = from_keras(large_lookups(), weights=folder / "large.weights.h5")
    assert 'vocabulary = "large.words.txt", name = "words")' in text
    assert 'IntegerLookup(vocabulary = "large.codes.txt", name = "codes")' in text
    assert (folder / "large.codes.txt").read_text() == "".join(f"{each}\n" for each in range(7, 2500, 2))
    assert len((folder / "large.words.txt").read_text().split()) == 1200
    with pytest.raises(RunError, match="TFD753"):
        from_keras(large_lookups(), weights=folder / "other.weights.h5")
    assert not (folder / "other.weights.h5").exists()


@pytest.mark.full
def test_a_spec_is_trained_and_evaluated_with_large_vocabularies(command: Command) -> None:
    """From another folder than that of the spec."""
    large_lookups().save(command.directory / "large.keras")
    done = command("init", "--from", "large.keras", "specs/large.tfdeploy", "--devices", "cpu=1")
    assert done.code == 0, done.err
    assert "large.words.txt: a vocabulary of 1,200 words" in done.out
    folder = command.directory / "specs"
    (folder / "rows.csv").write_text("t,c,p\nw1 a,7,1\nw1199 b,2499,0\n")
    columns = 'csv("rows.csv", text = "t", code = ["c"], label = ["p"])'
    data = f"data {{\n  train = {columns}\n  test = {columns}\n}}\n"
    (folder / "trained.tfdeploy").write_text(f"{command.read('specs/large.tfdeploy')}\n{data}")
    for verb in ("compile-and-run", "evaluate"):
        ended = command(verb, "specs/trained.tfdeploy", "--set", "clones.batch=2")
        assert ended.code == 0, ended.err
        assert "(2 examples)" in ended.out


def test_a_word_with_the_end_of_a_line_is_refused_in_a_file(tmp_path: Path) -> None:
    """A file has a word in each line."""
    words = layers.StringLookup(vocabulary=[*map(str, range(1200)), "two\nlines"], name="words")
    x = keras.Input((1,), dtype="string")
    model = keras.Model(x, layers.Embedding(1300, 2)(words(x)))
    with pytest.raises(RunError, match="TFD791") as caught:
        convert(model, source="model", stem="model", base=tmp_path)
    assert "`words`: a word of its vocabulary has the end of a line in it" in str(caught.value.diagnostic)


def test_outputs_that_rounding_decides_are_compared_in_float64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A softmax of large numbers takes another class for a difference in the last bit, but not in float64."""
    image = keras.Input((4,), name="image")
    model = keras.Model(image, layers.Dense(3, "softmax", name="y")(image), name="steep")
    model.compile("sgd", "categorical_crossentropy")
    outputs, found = proofs._KerasSteps.outputs, []

    def off(self: Any, values: Any) -> list[Any]:
        found.append(self.compiled.plan.update.precision)
        given = outputs(self, values)
        return [1 - given[0]] if found[-1] in wrong else given

    monkeypatch.setattr(proofs._KerasSteps, "outputs", off)
    wrong: tuple[str, ...] = ("float32",)
    made = convert(model, source="model", stem="model", base=tmp_path).proof
    assert made.rounded > 0.1
    assert made.largest <= 1e-6
    assert found == ["float32", "mixed_float64"]
    wrong = ("float32", "mixed_float64")
    with pytest.raises(RunError, match="the outputs differ by"):
        convert(model, source="model", stem="model", base=tmp_path)


def test_steps_of_adam_that_are_rounding_in_float64_too_do_not_count(tmp_path: Path) -> None:
    """Batch normalization of tiny numbers makes zero of the gradient of a bias, from very large parts."""
    x = keras.Input((4,), name="x")
    tiny = keras.initializers.RandomNormal(stddev=1e-6, seed=1)
    hidden = layers.BatchNormalization(epsilon=1e-14)(
        layers.Dense(40, kernel_initializer=tiny, name="first")(x)
    )
    model = keras.Model(x, layers.Dense(2, name="y")(hidden), name="tiny")
    model.compile("adam", "mse")
    made = convert(model, source="model", stem="model", base=tmp_path).proof
    assert made.rounded > 0.1
    assert made.step is not None
    assert made.step.rounded == ("first/bias",)
    assert made.largest <= 1e-6


@pytest.mark.parametrize(
    ("policy", "bias", "momentum"), [("float32", 1e5, "0.9901"), ("mixed_float16", 1e3, "0.990005")]
)
def test_a_fault_is_told_from_rounding_that_a_model_magnifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, policy: str, bias: float, momentum: str
) -> None:
    """In float64, in which a right spec differs little, and one with another momentum does not pass."""
    image = keras.Input((2, 2, 3), name="image")
    with keras_settings(policy):
        x = layers.Conv2D(4, 1, bias_initializer=keras.initializers.Constant(bias))(image)
        x = layers.Flatten()(layers.ReLU()(layers.BatchNormalization()(x)))  # digits that the bias has taken
        model = keras.Model(image, layers.Dense(2, name="y")(x), name="steep")
    model.compile("sgd", "mse")
    proof = convert(model, source="model", stem="model", base=tmp_path).proof
    assert proof.rounded > 1e-4
    assert proof.step.largest <= 1e-6

    def changed(*args: object, **more: object) -> str:
        text = text_of(*args, **more)  # type: ignore[arg-type]
        return text.replace("BatchNormalization()", f"BatchNormalization(momentum = {momentum})")

    monkeypatch.setattr("tfdeploy.onramp.convert.text_of", changed)
    with pytest.raises(RunError, match="TFD791") as caught:
        convert(model, source="model", stem="model", base=tmp_path)
    assert "after a step of training, `batch_normalization" in str(caught.value.diagnostic)


def test_layers_inside_others_are_compared_in_float64_as_well() -> None:
    """Else they would round as before, in the model alone."""
    for layer in (
        layers.Bidirectional(layers.LSTM(3)),
        layers.RNN([layers.GRUCell(2), layers.LSTMCell(3)]),
        layers.SpectralNormalization(layers.Dense(3)),
    ):
        copy = proofs._without_randomness(layer, {"float32": WIDE.name})
        assert {each.dtype_policy.name for each in flattened_layers(copy)} == {WIDE.name}


def test_a_step_that_keras_cannot_do_is_not_compared(tmp_path: Path) -> None:
    """It adds no penalty in float16 to a loss in float32; the outputs are compared nevertheless."""
    x = keras.Input((4,))
    y = layers.Dense(3, activity_regularizer="l2", dtype="mixed_float16")(x)
    model = keras.Model(x, layers.Dense(2, dtype="mixed_float16")(y))
    model.compile("sgd", "mse")
    proof = convert(model, source="model", stem="model", base=tmp_path).proof
    assert proof.step is None
    assert "expected to be a float tensor but is a half tensor" in proof.untried


def test_numbers_that_are_not_finite_in_the_model_either_are_no_difference(tmp_path: Path) -> None:
    """Of a loss, the outputs are compared; of outputs, nothing can be."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)], name="counts")
    model.compile("sgd", "poisson")  # whose logarithm is of what the layer gives, which may be negative
    proof = convert(model, source="model", stem="model", base=tmp_path).proof
    assert proof.outputs <= 1e-4
    assert "the model's own loss is nan" in proof.untried
    x = keras.Input((4,))
    model = keras.Model(x, keras.ops.log(layers.Dense(2, kernel_initializer="ones")(-keras.ops.abs(x))))
    with pytest.raises(RunError, match="own outputs for made-up inputs are not finite"):
        convert(model, source="model", stem="model", base=tmp_path)


def test_what_rounding_moves_is_no_difference_where_float64_is_none() -> None:
    """Of a model whose layers take no float64: a step from weights that rounding has changed shows it."""

    class Steps:
        def trained(self, values: dict[str, Any]) -> Trajectory:
            steep = np.append(1.0, (values["w"] - 1.0) * 1e4)
            return Trajectory((1.0,), {"w": steep, "global_step": 0})

    values = {"w": np.ones(50, np.float32)}
    for off, rounded, largest in ((1e-3, ("w",), 0.0), (1e-2, (), 1e-2)):
        ours = Trajectory((1.0,), {"w": np.append(1.0, np.full(50, off)), "global_step": 0})
        found = proofs._compared(ours, Steps(), values, "float32", 1e-4)  # type: ignore[arg-type]
        assert (found.rounded, found.largest) == (rounded, largest)


def test_a_name_that_a_module_lacks_is_said(command: Command) -> None:
    """With one that is like it."""
    (command.directory / "mine.py").write_text(OWN)
    done = command("init", "--from", "mine:mke", "mine.tfdeploy")
    assert "TFD790" in done.err
    assert "the module `mine` has no model and no function `mke`; there is `make`" in done.err


def test_a_step_that_nobody_can_do_is_said_not_to_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outputs are. If Keras can do the step, the spec has a fault, which is told."""

    def refused(*_: object) -> float:
        raise RunError(step_failed("a combination", "no kernel has this gradient", None))

    monkeypatch.setattr(proofs, "_stepped", refused)
    with pytest.raises(RunError, match="TFD738"):
        convert(convnet(), source="model", stem="model", base=tmp_path)

    def unable(*_: object) -> None:
        raise tf.errors.InternalError(None, None, "no kernel has this gradient")

    monkeypatch.setattr(proofs._KerasSteps, "trained", unable)
    proof = convert(convnet(), source="model", stem="model", base=tmp_path).proof
    assert proof.step is None
    assert "no kernel has this gradient" in proof.untried
    assert proof.outputs <= 1e-4


@pytest.mark.full
@pytest.mark.parametrize("name", ["ConvNeXtXLarge", "EfficientNetB3", "NASNetLarge", "ResNet152"])
def test_the_largest_networks_can_be_written(name: str) -> None:
    """Each in fewer than 400 lines. They are not proved here, and their weights take no memory."""
    more = {"include_top": False} if name == "NASNetLarge" else {}
    with stateless():
        model = getattr(keras.applications, name)(weights=None, input_shape=(96, 96, 3), classes=10, **more)
    assert text_of(draft(model, {}), weights=None, devices={}, clones=None).count("\n") < 400
