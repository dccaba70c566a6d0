"""Groups of weights with optimizers of their own follow Keras's optimizers, each on its own weights."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.report.view import Ink
from compiler.report.why import why_text
from compiler.step.read.why import explain_placement
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError, SpecError
from tests.graphs import graph_of
from tests.support import Training, largest_difference, marked, spec_of

STEPS = 20
BATCH = 12

SPEC = """
tfdeploy = 1
model "bag" {{
  words = input(int32, [5])
  label = input(int32, [])
  y = words -> Embedding(20, 6, name = "table") -> GlobalAveragePooling1D()
    -> Dense(5, activation = tanh, name = "muon") -> Dense(5, activation = tanh, name = "lion")
    -> Dense(5, activation = tanh, name = "lamb") -> Dense(5, activation = tanh, name = "adamax")
    -> Dense(5, activation = tanh, name = "adafactor") -> Dense(3, name = "logits")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = {half} }}
update {{
  clip = global_norm(0.5)
  {optimizer}
}}
train {{ seed = 3 }}
"""
ALL = """
  optimizer {
    "table/*" -> Nadam(0.01)
    "muon/*" -> Muon(ExponentialDecay(0.01, 5, 0.5))
    "lion/*" -> Lion(0.001, weight_decay = 0.1)
    "lamb/*" -> Lamb(0.01)
    "adamax/*" -> Adamax(0.01, weight_decay = 0.1, exclude_from_weight_decay = ["*/bias"])
    "adafactor/*" -> Adafactor(0.01)
    "logits/kernel" -> python("own:ascent", rate = 0.01)
    "*" -> AdamW(0.01, weight_decay = 0.5, exclude_from_weight_decay = ["logits/b*"])
  }
"""
OWN = '''
import keras


class Signed(keras.optimizers.Optimizer):
    """Steps of one size against the sign of a sum of gradients, which it also keeps."""

    def build(self, variables):
        super().build(variables)
        self.sums = self.add_optimizer_variables(variables, "sum")

    def update_step(self, gradient, variable, learning_rate):
        kept = self.sums[self._get_variable_index(variable)]
        self.assign_add(kept, gradient)
        step = keras.ops.cast(self.iterations + 1, variable.dtype)
        self.assign_sub(variable, keras.ops.tanh(kept) * learning_rate / step)


def ascent(rate):
    return Signed(learning_rate=rate)


def given(rate, **more):
    return keras.optimizers.SGD(rate, **more)


def called(rate):
    return keras.optimizers.SGD(lambda: rate)


def words():
    return "SGD"


class Whole(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        super().apply(grads, trainable_variables)


def whole():
    return Whole(0.1)


class Failing(keras.optimizers.SGD):
    def update_step(self, gradient, variable, learning_rate):
        raise RuntimeError("no step")


def failing():
    return Failing(0.1)


class Halved(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.1 / keras.ops.cast(step + 1, "float32")


def halved():
    return Halved()
'''


@pytest.fixture(autouse=True)
def _own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


def bag(optimizer: str) -> ir.Spec:
    """Return the spec with something about optimizers in `update`."""
    return spec_of(SPEC.format(half=BATCH // 2, optimizer=optimizer))


def batches() -> dict[str, Any]:
    """Return examples for all steps."""
    generator = np.random.default_rng(0)
    count = BATCH * STEPS
    return {
        "words": generator.integers(0, 15, (count, 5)).astype(np.int32),
        "label": generator.integers(0, 3, count).astype(np.int32),
    }


def keras_model(weights: dict[str, Any]) -> Any:
    """Return the same model as plain Keras has it, with these weights."""
    words = keras.Input((5,), dtype="int32")
    y = keras.layers.Embedding(20, 6, name="table")(words)
    y = keras.layers.GlobalAveragePooling1D()(y)
    for name in ("muon", "lion", "lamb", "adamax", "adafactor"):
        y = keras.layers.Dense(5, activation="tanh", name=name)(y)
    model = keras.Model(words, keras.layers.Dense(3, name="logits")(y))
    for each in model.trainable_variables:
        each.assign(weights[each.path])
    return model


def trained_by_hand(model: Any, groups: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """Train a Keras model by several optimizers, each on the weights that its glob is the first to match."""
    variables = model.trainable_variables
    first = {each.path: next(glob for glob in groups if fnmatchcase(each.path, glob)) for each in variables}
    own = {glob: [at for at, each in enumerate(variables) if first[each.path] == glob] for glob in groups}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for glob, optimizer in groups.items():
        optimizer.build([variables[at] for at in own[glob]])

    @tf.function
    def step(words: Any, label: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(label, model(words))
        found = tape.gradient(value, [each.value for each in variables])
        gradients = [tf.convert_to_tensor(each) for each in found]  # rows of one index count as their sum
        gradients, _ = tf.clip_by_global_norm(gradients, 0.5)
        for glob, optimizer in groups.items():
            optimizer.apply([gradients[at] for at in own[glob]], [variables[at] for at in own[glob]])

    for at in range(0, BATCH * STEPS, BATCH):
        step(*(tf.constant(each[at : at + BATCH]) for each in arrays.values()))
    return {each.path: each.numpy() for each in variables}


@pytest.mark.full
def test_groups_follow_optimizers_of_keras_on_two_clones() -> None:
    """After 20 steps on two clones the weights are those that Keras's optimizers give by hand."""
    arrays = batches()
    sys.path.insert(0, ".")
    try:
        import own  # type: ignore[import-not-found]
    finally:
        sys.path.remove(".")
    optimizers = keras.optimizers
    adamax, adamw = optimizers.Adamax(0.01, weight_decay=0.1), optimizers.AdamW(0.01, weight_decay=0.5)
    adamax.exclude_from_weight_decay(var_names=["bias"])
    adamw.exclude_from_weight_decay(var_names=["bias"])
    groups = {
        "table/*": optimizers.Nadam(0.01),
        "muon/*": optimizers.Muon(optimizers.schedules.ExponentialDecay(0.01, 5, 0.5)),
        "lion/*": optimizers.Lion(0.001, weight_decay=0.1),
        "lamb/*": optimizers.Lamb(0.01),
        "adamax/*": adamax,
        "adafactor/*": optimizers.Adafactor(0.01),
        "logits/kernel": own.ascent(0.01),
        "*": adamw,
    }
    with Training(bag(ALL), arrays) as training:
        before = training.values()
        training.steps(STEPS)
        after = training.values()
    expected = trained_by_hand(keras_model(before), groups, arrays)
    differences = {name: largest_difference({name: after[name]}, {name: expected[name]}) for name in expected}
    assert max(differences.values()) < 1e-5, differences
    slots = {name for name in after if name.startswith(("table/", "muon/", "adafactor/kernel/", "logits/"))}
    assert slots - expected.keys() == {
        *(f"table/embeddings/{each}" for each in ("Nadam", "Nadam_1", "Nadam_2")),
        "muon/kernel/Muon",
        *(f"muon/bias/{each}" for each in ("Muon", "Muon_1")),
        *(f"adafactor/kernel/{each}" for each in ("Adafactor", "Adafactor_1", "Adafactor_2")),
        "logits/kernel/Signed",
        *(f"logits/bias/{each}" for each in ("Adam", "Adam_1")),
    }
    assert after["adafactor/kernel/Adafactor"].shape == (5,)
    said = why_text(explain_placement(training.compiled.step, "table/embeddings"), Ink(color=False))
    assert '  updated by the optimizer of `"table/*" -> Nadam(0.01)`' in said.splitlines()


def fault(optimizer: str) -> Diagnostic:
    """Return the one thing that is wrong with a spec when it is compiled."""
    with pytest.raises((SpecError, RunError)) as caught:
        graph_of(bag(optimizer))
    if isinstance(caught.value, RunError):
        return caught.value.diagnostic
    (found,) = caught.value.diagnostics
    return found


FAULTS = {
    'optimizer { "table/*" -> SGD(0.1), "m*" -> Lion(0.1) }': ("TFD550", '"m*" -> Lion(0.1)'),
    'optimizer { "*e/*" -> SGD(0.1), "table/*" -> SGD(0.1), "*" -> SGD(0.1) }': ("TFD551", '"table/*"'),
    'optimizer { "tabel/*" -> SGD(0.1), "*" -> SGD(0.1) }': ("TFD511", '"tabel/*"'),
    'optimizer = AdamW(0.1, exclude_from_weight_decay = ["*/bais"])': ("TFD511", '["*/bais"]'),
    'optimizer = Muon(0.1, ns_steps = 2, exclude_layers = ["("])': (
        "TFD507",
        'Muon(0.1, ns_steps = 2, exclude_layers = ["("])',
    ),
    'optimizer = python("own:words")': ("TFD552", 'python("own:words")'),
    'optimizer = python("own:given", rate = 0.1, clipnorm = 1.0)': (
        "TFD552",
        'python("own:given", rate = 0.1, clipnorm = 1.0)',
    ),
    'optimizer = python("own:given", rate = 0.1, use_ema = true)': (
        "TFD552",
        'python("own:given", rate = 0.1, use_ema = true)',
    ),
    'optimizer = python("own:given", rate = Dense(3))': ("TFD552", "Dense(3)"),
    'optimizer = python("own:whole")': ("TFD552", 'python("own:whole")'),
    'optimizer = SGD(python("own:words"))': ("TFD552", 'python("own:words")'),
    'optimizer = python("own:nothing")': ("TFD714", 'python("own:nothing")'),
    'optimizer = python("own:failing")': ("TFD714", 'raise RuntimeError("no step")'),
}


@pytest.mark.parametrize("optimizer", FAULTS)
def test_what_is_wrong_is_said_where_it_is_written(optimizer: str) -> None:
    """Globs without weights, weights without a rule and unusable Python have their place."""
    code, written = FAULTS[optimizer]
    found = fault(optimizer)
    assert found.code == code
    assert marked(found) == written


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ('SGD(python("own:halved"))', [0.1, 0.05, 0.1 / 3]),
        ('python("own:given", rate = 0.75)', [0.75] * 3),
        ('python("own:called", rate = 0.375)', [0.375] * 3),
        ('python("own:given", rate = PiecewiseConstantDecay([0], [1.0, 0.5]))', [1.0, 0.5, 0.5]),
        ("Adam()", [0.001] * 3),
    ],
)
def test_the_rate_of_each_step(optimizer: str, expected: list[float]) -> None:
    """A number, a schedule, or what the user's own has; the step is the global one, as in Keras."""
    with Training(bag(f"optimizer = {optimizer}"), batches()) as training:
        rates = []
        for _ in expected:
            rates.append(float(training.session.run(training.compiled.learning_rates["*"])))
            training.steps(1)
    assert rates == pytest.approx(expected)
