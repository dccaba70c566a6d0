"""Groups of weights with optimizers of their own, and optimizers that the user has written."""

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph.compiled import CompiledGraph
from compiler.report.view import Ink
from compiler.report.why import why_text
from compiler.step.read.why import explain_placement
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError, SpecError
from tests.graphs import graph_of
from tests.support import Training, cloned, marked, spec_of

BATCH = 12
DENSE = ("muon", "lion", "lamb", "adamax", "adafactor", "logits")
WEIGHTS = ("table/embeddings", *(f"{layer}/{each}" for layer in DENSE for each in ("kernel", "bias")))

MODEL = """
  words = input(int32, [5])
  label = input(int32, [])
  y = words -> Embedding(20, 6, name = "table") -> GlobalAveragePooling1D()
    -> Dense(5, activation = tanh, name = "muon") -> Dense(5, activation = tanh, name = "lion")
    -> Dense(5, activation = tanh, name = "lamb") -> Dense(5, activation = tanh, name = "adamax")
    -> Dense(5, activation = tanh, name = "adafactor") -> Dense(3, name = "logits")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
"""
GROUPS = {
    "table/*": "Nadam(0.01)",
    "muon/*": "Muon(ExponentialDecay(0.01, 5, 0.5))",
    "lion/*": "Lion(0.001, weight_decay = 0.1)",
    "lamb/*": "Lamb(0.01)",
    "adamax/*": 'Adamax(0.01, weight_decay = 0.1, exclude_from_weight_decay = ["*/bias"])',
    "adafactor/*": "Adafactor(0.01)",
    "logits/kernel": 'python("own:ascent", rate = 0.01)',
    "*": 'AdamW(0.01, weight_decay = 0.5, exclude_from_weight_decay = ["logits/b*"])',
}
RULES = ", ".join(f'"{glob}" -> {optimizer}' for glob, optimizer in GROUPS.items())
ALL = f"optimizer {{ {RULES} }}"
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
    update = f"clip = global_norm(0.5)\n{optimizer}"
    return spec_of(cloned(MODEL, batch=BATCH // 2, update=update))


def batches() -> dict[str, Any]:
    """Return examples for four steps."""
    generator = np.random.default_rng(0)
    count = 4 * BATCH
    return {
        "words": generator.integers(0, 15, (count, 5)).astype(np.int32),
        "label": generator.integers(0, 3, count).astype(np.int32),
    }


@cache
def after_a_step(optimizer: str) -> tuple[CompiledGraph, dict[str, Any]]:
    """Return the graph of two clones, and all variables after a step."""
    with Training(bag(optimizer), batches()) as training:
        training.steps(1)
        return training.compiled, training.values()


@pytest.mark.family(every=8)
@pytest.mark.parametrize("glob", [*reversed(GROUPS)])
def test_a_group_does_what_its_optimizer_does_alone(glob: str) -> None:
    """To its weights and their slots; gradients are clipped by the norm of those of all groups."""
    (_, found), (_, alone) = after_a_step(ALL), after_a_step(f"optimizer = {GROUPS[glob]}")
    first = {name: next(each for each in GROUPS if fnmatchcase(name, each)) for name in WEIGHTS}
    own = tuple(name for name in WEIGHTS if first[name] == glob)
    assert own
    names = {name for name in alone if name.startswith(own)}
    assert names == {name for name in found if name.startswith(own)}
    for name in names:
        np.testing.assert_array_equal(found[name], alone[name], err_msg=name)


def test_an_optimizer_of_the_users_changes_what_it_says() -> None:
    """By its own slots, rate and count of steps, in NumPy."""
    with Training(bag('optimizer = python("own:ascent", rate = 1.0)'), batches()) as training:
        for step in (1, 2):
            before = training.values()["logits/kernel"]
            training.steps(1)
            after = training.values()
            moved = np.tanh(after["logits/kernel/Signed"]) / step
            np.testing.assert_allclose(after["logits/kernel"], before - moved, atol=1e-6)
            assert np.abs(moved).max() > 1e-3


def test_groups_have_slots_of_their_own() -> None:
    """Each weight those of its group's optimizer, which `why` names."""
    compiled, _ = after_a_step(ALL)
    slots = {name for name in compiled.saved if name.startswith(("table/", "muon/", "adafactor/kernel/"))}
    assert slots - {*WEIGHTS} == {
        *(f"table/embeddings/{each}" for each in ("Nadam", "Nadam_1", "Nadam_2")),
        "muon/kernel/Muon",
        *(f"muon/bias/{each}" for each in ("Muon", "Muon_1")),
        *(f"adafactor/kernel/{each}" for each in ("Adafactor", "Adafactor_1", "Adafactor_2")),
    }
    assert compiled.saved["adafactor/kernel/Adafactor"].shape == (5,)
    said = why_text(explain_placement(compiled.step, "table/embeddings"), Ink(color=False))
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
    'optimizer = AdamW(0.1, exclude_from_weight_decay = ["*/b", "*/b"])': ("TFD511", '["*/b", "*/b"]'),
    'optimizer = Muon(0.1, ns_steps = 2, exclude_layers = ["("])': (
        "TFD507",
        'Muon(0.1, ns_steps = 2, exclude_layers = ["("])',
    ),
    'optimizer = Lion(0.1, name = "a b")': ("TFD507", 'Lion(0.1, name = "a b")'),
    "optimizer = Lion(CosineDecay(0.1, 4, alpha = none))": ("TFD507", "CosineDecay(0.1, 4, alpha = none)"),
    'optimizer = Lion(CosineDecay(0.1, 4, name = "_"))': ("TFD507", 'CosineDecay(0.1, 4, name = "_")'),
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


@pytest.mark.family(every=4)
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
