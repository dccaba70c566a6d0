"""Mixed precision: layers compute in 16 bits, variables stay float32, and bad steps are skipped."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.loss_scale import GROWTH_STEPS, INITIAL_SCALE
from compiler.graph.tower.traces import Traces
from tests.bfloat16 import MIXED_BFLOAT16, needs_bfloat16
from tests.graphs import graph_of, unusual_keras
from tests.models import data, model, train
from tests.support import Training, cloned, spec_of

FLOAT16 = {"update__precision": "mixed_float16"}
BFLOAT16 = {"update__precision": "mixed_bfloat16"}


@pytest.mark.parametrize("precision", [MIXED_BFLOAT16, "mixed_float16"])
def test_layers_compute_in_16_bits_and_variables_are_float32(precision: str) -> None:
    """Products of the forward and the backward pass are of 16 bits; variables, losses and metrics of 32."""
    compiled = graph_of(model("normal", update__precision=precision))
    low = tf.as_dtype(precision.removeprefix("mixed_"))
    types = {op.name: op.outputs[0].dtype for op in compiled.graph.get_operations() if op.outputs}
    products = {name: dtype for name, dtype in types.items() if name.endswith(("/MatMul", "/convolution"))}
    assert {dtype for name, dtype in products.items() if not name.startswith("evaluation")} == {low}
    backward = {types[name] for name in types if "Conv2DBackprop" in name or "MatMul_grad/MatMul" in name}
    assert backward == {low}
    assert {each.info.dtype for each in compiled.variables.values()} == {"float32"}
    floats = [compiled.data_loss, *(state for m in compiled.metrics.values() for state in m.states)]
    assert {each.dtype for each in floats} == {tf.float32}


SETTINGS = """
  image = input(float32, [8, 8, 1])
  class = input(float32, [3])
  chosen = image
    -> Conv2D(2, 3, activation = relu)
    -> BatchNormalization()
    -> MaxPooling2D()
    -> Flatten()
    -> Dense(3, activation = sigmoid)
  loss = [class, chosen] -> KLDivergence()
  metrics { score = [class, chosen] -> F1Score() }
"""

REPORTED = """
  x = input(float32, [4])
  y = input(float32, [1])
  w = input(float32, [])
  kind = input(int32, [])
  s = input(float32, [3, 1])
  h = x -> Dense(8, activation = relu, name = "h")
  p = h -> Dense(1, bias_initializer = Constant(-3000.0), activity_regularizer = L2(1.0), name = "p")
  k = h -> Dense(2100, kernel_initializer = zeros, bias_initializer = python("one:one"), name = "k")
  q = s -> Masking(0.0) -> Dense(1, bias_initializer = Constant(3000.0), name = "q")
  loss = [y, p] -> MeanSquaredError()
  metrics {
    right = [kind, k] -> SparseCategoricalAccuracy()
    top = [kind, k] -> SparseTopKCategoricalAccuracy(1)
    mse = [y, p] -> MeanSquaredError()
    weighted = [y, p, w] -> MeanSquaredError()
    root = [y, p] -> RootMeanSquaredError()
    own = [y, p] -> python("one:far")
    masked = [s, q] -> MeanSquaredError()
  }
  output = { k = k, p = p, q = q }
"""

ONE = """
import numpy as np
from keras import ops


def one(shape, dtype=None):
    found = np.zeros(shape, "float32")
    found[2048] = 1.0
    return ops.convert_to_tensor(found)


def far(target, prediction):
    return ops.sum(ops.square(target - prediction), axis=-1)
"""


@pytest.mark.family(every=2)
@pytest.mark.parametrize("precision", [MIXED_BFLOAT16, "mixed_float16"])
def test_what_is_reported_is_float32(precision: str, tmp_path: Path) -> None:
    """Metrics of outputs of 16 bits, and a penalty of them, have values that neither type has.

    float16 ends at 65,504, and bfloat16 knows no number between 2,048 and 2,064.
    """
    (tmp_path / "one.py").write_text(ONE)
    random = np.random.default_rng(1)
    arrays = {
        "x": random.standard_normal((8, 4)).astype(np.float32),
        "y": np.linspace(-3.0, 3.0, 8, dtype=np.float32)[:, None],
        "w": np.arange(8, dtype=np.float32),
        "kind": np.array([2048, 2049, 2050, 2047, 2049, 2048, 7, 2049], np.int32),
        "s": random.integers(0, 3, (8, 3, 1)).astype(np.float32),
    }
    spec = spec_of(cloned(REPORTED, update=f"optimizer = SGD(0.0), precision = {precision}"))
    with Training(spec, arrays, base=str(tmp_path)) as training:
        compiled, evaluation = training.compiled, training.compiled.evaluation
        results = {name: each.result for name, each in compiled.metrics.items()}
        outputs = [each.outputs for each in compiled.clones]
        found, loss, halves = training.session.run((results, compiled.data_loss, outputs))
        whole = {name: each.result for name, each in evaluation.metrics.items()}
        evaluated, its_loss = training.evaluated(arrays, (whole, evaluation.loss))
    p, q = (np.concatenate([each[name] for each in halves]).astype(np.float32) for name in "pq")
    squares, kept = np.square(arrays["y"] - p)[:, 0], arrays["s"][..., 0] != 0.0
    expected = {
        "right": 0.25,
        "top": 0.25,
        "mse": squares.mean(),
        "weighted": (squares * arrays["w"]).sum() / arrays["w"].sum(),
        "root": np.sqrt(squares.mean()),
        "own": squares.mean(),
        "masked": np.square(arrays["s"] - q)[..., 0][kept].mean(),
    }
    assert found == pytest.approx(expected, rel=1e-6)
    assert evaluated == pytest.approx(expected, rel=1e-6)
    total = squares.mean() + np.square(p).mean()
    assert [loss, its_loss] == pytest.approx([total, total], rel=1e-6)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("precision", [MIXED_BFLOAT16, "mixed_float16"])
def test_it_follows_float32_as_far_as_16_bits_go(precision: str) -> None:
    """Over a few steps the losses stay within a hundredth of those in float32."""
    arrays = data("normal")
    _, exact = train(model("normal", optimizer="SGD(0.2)"), arrays, 5)
    _, losses = train(model("normal", optimizer="SGD(0.2)", update__precision=precision), arrays, 5)
    assert losses == pytest.approx(exact, rel=0.01)
    assert losses != exact


@needs_bfloat16
def test_an_embedding_converts_rows_and_not_its_table() -> None:
    """Only rows of the table are converted, and its gradient stays sparse, in float32."""
    compiled = graph_of(model("words", clones=2, batch=12, **BFLOAT16))
    converted = {
        tensor.name
        for op in compiled.graph.get_operations()
        if op.type == "Cast"
        for tensor in op.inputs
        if tensor.shape.as_list() == [40, 4]
    }
    assert converted == set()
    gradients = [op for op in map_placement(compiled).ops if op.name.startswith("aggregate/table")]
    assert gradients != []
    assert not any(op.type == "AddN" for op in gradients)


@pytest.mark.full
@needs_bfloat16
def test_layers_within_layers_take_the_precision_too() -> None:
    """The states of recurrent layers that are made inside another are of 16 bits."""
    layers = '-> Embedding(40, 4, name = "table") -> Bidirectional(LSTM(3), name = "both")'
    compiled = graph_of(model("words", layers=layers, **BFLOAT16))
    loops = [op for op in compiled.graph.get_operations() if op.type == "StatelessWhile"]
    states = [tensor for op in loops for tensor in op.outputs if tensor.shape == (24, 3)]
    assert {each.dtype for each in states} == {tf.bfloat16}
    assert len(states) == 8  # two states, forwards and backwards in time, in both passes


def test_a_graph_does_not_depend_on_the_settings_of_keras() -> None:
    """Layers, losses and metrics are those of the spec, and Keras keeps its settings."""
    spec = spec_of(cloned(SETTINGS, update="optimizer = Adam(0.1)"))
    usual = graph_of(spec, seed=1, traces=Traces(".")).graph.as_graph_def()
    with unusual_keras():
        assert graph_of(spec, seed=1, traces=Traces(".")).graph.as_graph_def() == usual


# --- loss scaling -------------------------------------------------------------------------------------------


@pytest.mark.family(every=6)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("normal", {"optimizer": "Adam(0.01)", "update__ema": "0.9", "update__clip": "value(0.1)"}),
        ("normal", {"optimizer": "Momentum(0.1)", "place": "variables -> replicated"}),
        ("normal", {"optimizer": "RMSprop(0.1)", "update__accumulate": "2", "batch": 6}),
        ("normal", {"optimizer": "Adadelta(1)", "update__batch_norm": "synchronized"}),
        ("words", {"optimizer": "Adagrad(0.1, weight_decay = 0.1)", "update__clip": "norm(0.1)"}),
        ("words", {"optimizer": "Ftrl(0.1)", "model__regularize": "L2(0.1)"}),
    ],
    ids=["adam", "replicated", "accumulate", "synchronized", "adagrad", "ftrl"],
)
def test_a_bad_step_changes_nothing_but_the_scale(kind: str, settings: dict[str, Any]) -> None:
    """An infinite element in one clone's gradient leaves all variables as they are and halves the scale.

    Not the global step, which counts updates, nor slots, averages or statistics change. The next step is a
    good one.
    """
    arrays = data(kind, 72)
    if kind == "normal":
        arrays["x"][24 + 23] = 1e30  # an example of clone 1, in the second step
    spec = model(kind, clones=2, **{"batch": 12, **settings, **FLOAT16})
    with Training(spec, arrays) as training:
        training.steps(1)
        before = training.values()
        feed = {_bias_gradient(training, clone=1): [np.inf] * 5} if kind == "words" else {}
        training.session.run(training.compiled.train_op, feed)
        skipped = training.values()
        training.steps(1)
        after = training.values()
    changed = {name for name in before if not np.array_equal(before[name], skipped[name])}
    assert changed == {"loss_scale", "loss_scale/good_steps"}
    assert skipped["loss_scale"] == before["loss_scale"] / 2 == after["loss_scale"]
    counts = [each["loss_scale/good_steps"] for each in (before, skipped, after)]
    assert counts == [1, 0, 1]
    assert (before["global_step"], after["global_step"]) == (1, 2)
    moved = {name for name in before if not np.array_equal(skipped[name], after[name])}
    assert {name for name in before if name.startswith("logits/kernel")} <= moved


def _bias_gradient(training: Training, clone: int | None = None) -> Any:
    """Return the tensor of a clone's own gradient by the bias of the logits; None is the only clone."""
    names = [op.name for op in training.compiled.graph.get_operations()]
    scope = "" if clone is None else f"clone_{clone}/"
    ends = tuple(f"{scope}gradients/logits/{each}" for each in ("BiasAdd_grad/BiasAddGrad", "add_grad/Sum"))
    (name,) = [each for each in names if each in ends]
    return training.compiled.graph.get_tensor_by_name(f"{name}:0")


def test_the_step_says_whether_it_was_applied() -> None:
    """`applied` is true in a good step and false in a skipped one, in which the step is not counted."""
    with Training(model("dense", clones=2, batch=12, **FLOAT16), data("dense", 48)) as training:
        compiled = training.compiled
        run = [compiled.applied, compiled.train_op]
        good, _ = training.session.run(run)
        bad, _ = training.session.run(run, {_bias_gradient(training, 0): [np.nan] * 5})
        counted = training.values()["global_step"]
    assert (good, bad, counted) == (True, False, 1)


def test_the_scale_follows_keras() -> None:
    """Through good and bad steps the scale is that of Keras's LossScaleOptimizer, and grows when it grows."""
    outcomes = [True, True, False, True, True, True, False, False, True]
    own = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.0))
    weight = keras.Variable(np.zeros(1, np.float32))
    own.build([weight])
    assert (own.initial_scale, own.dynamic_growth_steps) == (INITIAL_SCALE, GROWTH_STEPS)
    own.step_counter.assign(GROWTH_STEPS - 2)
    expected, found = [], []
    with Training(model("dense", **FLOAT16), data("dense")) as training:
        training.assign({"loss_scale/good_steps": GROWTH_STEPS - 2})
        gradient = _bias_gradient(training)
        for good in outcomes:
            own.apply([tf.constant([1.0 if good else np.nan])], [weight])
            expected.append((float(own.dynamic_scale.numpy()), int(own.step_counter.numpy())))
            training.session.run(training.compiled.train_op, {} if good else {gradient: [np.nan] * 5})
            values = training.values()
            found.append((float(values["loss_scale"]), int(values["loss_scale/good_steps"])))
    assert found == expected
    assert max(scale for scale, _ in found) == 2 * INITIAL_SCALE


def test_the_scale_makes_small_gradients_visible() -> None:
    """Gradients that float16 has no digits for are those of float32 all the same, thanks to the scale."""
    arrays = data("dense")
    spec = {"optimizer": "SGD(1)", "layers": "-> Flatten() -> Rescaling(1e-6)"}
    exact, _ = train(model("dense", **spec), arrays, 1)  # type: ignore[arg-type]  # all are strings
    start, _ = train(model("dense", **spec), arrays, 0)  # type: ignore[arg-type]  # as above
    found, _ = train(model("dense", **spec, **FLOAT16), arrays, 1)  # type: ignore[arg-type]  # as above
    change, expected = (each["logits/kernel"] - start["logits/kernel"] for each in (found, exact))
    assert np.abs(expected).max() < 1e-5
    assert change == pytest.approx(expected, rel=0.05, abs=2e-8)
