"""`python(...)` for every object of a model: the same numbers as in plain Keras, and located faults."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.storage.export import keras_model
from compiler.graph.tower.network.network import activation_of, make
from compiler.graph.user_code import load_function
from dsl import ir
from tests.graphs import graph_of
from tests.support import Training, cloned, refusal_of, spec_of

FILE_OF_MINE = Path(__file__).with_name("mine.py")

MODEL = """
  x = input(float32, [4])
  y = input(int32, [])

  p, q = x -> python("mine:net", width = 6, name = "net")
  r, s = [x, p[:, :3]] -> python("mine:two", name = "two")
  logits = [p, q, r, s] -> Concatenate()
    -> Dense(
      8,
      activation = python("mine:wave"),
      kernel_initializer = python("mine:small"),
      kernel_constraint = python("mine:between"),
      bias_regularizer = python("mine:Cubes", factor = 0.1),
      name = "hidden"
    )
    -> Dense(3, name = "logits")

  loss = ([y, logits] -> python("mine:focal", gamma = 1.5)) + 0.1 * ([y, logits] -> python("mine:Size"))
  regularize = python("mine:Cubes", factor = 0.01)
  metrics {
    right = [y, logits] -> python("mine:right")
    hits = [y, logits] -> python("mine:Hits")
  }
"""


def _spec(text: str, folder: Path, **overrides: str) -> ir.Spec:
    shutil.copy(FILE_OF_MINE, folder / "mine.py")
    return spec_of(cloned(text), **overrides)


def _arrays() -> dict[str, Any]:
    generator = np.random.default_rng(1)
    return {
        "x": generator.standard_normal((8, 4)).astype(np.float32),
        "y": generator.integers(0, 3, 8).astype(np.int32),
    }


def _step_in_keras(model: keras.Model, mine: Any, arrays: dict[str, Any]) -> float:
    """Train a model by a step on the whole batch, as one writes it in Keras; return the loss before it."""
    with tf.GradientTape() as tape:
        logits = model(arrays["x"], training=True)
        loss = tf.reduce_mean(mine("focal")(arrays["y"], logits, gamma=1.5))
        loss += 0.1 * mine("Size")()(arrays["y"], logits) + sum(model.losses)
        kernels = [each for each in model.weights if each.name == "kernel" and each.regularizer is None]
        loss += sum(mine("Cubes")(factor=0.01)(each) for each in kernels)
    gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        variable.assign_sub(0.1 * gradient)
        if variable.path == "hidden/kernel":
            variable.assign(mine("between")(variable.value))
    return float(loss)


@pytest.mark.full
@pytest.mark.slow
def test_cloned_train_as_keras_does(tmp_path: Path) -> None:
    """A model with two outputs, one with named inputs, and all kinds of objects: weights, loss and metrics.

    The model has a loss and a batch normalization of its own, which must be those of the whole batch.
    """
    arrays = _arrays()
    spec = _spec(MODEL, tmp_path, update__batch_norm="synchronized")
    with Training(spec, arrays, base=str(tmp_path)) as training:
        compiled = training.compiled
        before = training.values()
        twin = keras_model(compiled, {name: before[name] for name in compiled.weights}, base=str(tmp_path))
        fetches = {name: each.result for name, each in compiled.metrics.items()}
        loss, found = training.session.run([compiled.total_loss, fetches])
        training.session.run(training.start)
        training.steps(1)
        after = training.values()
        trained = keras_model(compiled, {name: after[name] for name in compiled.weights}, base=str(tmp_path))

    right = np.argmax(twin(arrays["x"], training=True), -1) == arrays["y"]
    assert before["hidden/kernel"].std() == pytest.approx(0.2, rel=0.5)
    twin = keras_model(compiled, {name: before[name] for name in compiled.weights}, base=str(tmp_path))
    expected = _step_in_keras(twin, lambda name: load_function(f"mine:{name}", tmp_path, None), arrays)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert found["right"] == pytest.approx(right.mean())
    assert found["hits"] == right.sum()
    for one, other in zip(trained.variables, twin.variables, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6, err_msg=one.path)

    trained.save(tmp_path / "model.keras")  # as docs/how-to/model.md says how such a file is loaded
    own = {
        name: load_function(f"mine:{name}", tmp_path, None) for name in ("Inner", "wave", "small", "between")
    }
    own["Cubes"] = load_function("mine:Cubes", tmp_path, None)
    with keras.saving.custom_object_scope(own):
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(arrays["x"]), trained(arrays["x"]), rtol=1e-5, atol=1e-6)


FAULTS = {
    'x -> python("mine:failing_build") -> Dense(3)': ("TFD586", "raise RuntimeError"),
    'x -> python("mine:FailingCall") -> Dense(3)': ("TFD586", "return x[0, 0, 0]"),
    'x -> Dense(3, activation = python("mine:failing"))': ("TFD586", 'raise KeyError("wrong")'),
    'x -> Dense(3, kernel_initializer = python("mine:failing"))': ("TFD586", 'raise KeyError("wrong")'),
    'x -> Dense(3, kernel_regularizer = python("mine:failing"))': ("TFD586", 'raise KeyError("wrong")'),
    'x -> Dense(3, kernel_constraint = python("mine:failing"))': ("TFD586", 'raise KeyError("wrong")'),
    'x -> python("broken:any") -> Dense(3)': ("TFD586", "import no_such_module_of_anybody"),
    'x -> python("mine:wave") -> Dense(3)': ("TFD585", ""),
    'x -> Dense(3, activation = python("mine:focal"))': ("TFD585", ""),
    'x -> Dense(3, activation = python("mine:wave", haste = 1))': ("TFD507", ""),
    'x -> Dense(3, activation = python("mine:wave", speed = 2.0))': ("TFD585", ""),
}
OBJECTIVES = {
    'python("mine:failing_loss")': ("TFD586", "return target.shape.no_such_thing"),
    'python("mine:wave")': ("TFD585", ""),
    'python("mine:Hits")': ("TFD585", ""),
}
METRICS = {
    'python("mine:failing_loss")': ("TFD586", "return target.shape.no_such_thing"),
    'python("mine:Best")': ("TFD587", ""),
    'python("mine:FromOne")': ("TFD587", ""),
    'python("mine:Size")': ("TFD585", ""),
}


def _text(z: str = "x -> Dense(3)", loss: str = "MeanSquaredError()", metric: str | None = None) -> str:
    metrics = f"metrics {{ m = [x3, z] -> {metric} }}" if metric else ""
    return f"""
  x = input(float32, [4])
  x3 = x[:, :3]
  z = {z}
  loss = [x3, z] -> {loss}
  {metrics}
"""


@pytest.mark.full
def test_faults_of_user_code_point_at_the_spec(tmp_path: Path) -> None:
    """Each has its code and the text of the step, and a note says in which line of the module it arose."""
    (tmp_path / "broken.py").write_text("import no_such_module_of_anybody\n")
    cases = {_text(z=key): (key, wanted) for key, wanted in FAULTS.items()}
    cases |= {_text(loss=key): (key, wanted) for key, wanted in OBJECTIVES.items()}
    cases |= {_text(metric=key): (key, wanted) for key, wanted in METRICS.items()}
    for text, (written, (code, line)) in cases.items():
        spec = _spec(text, tmp_path)
        found = refusal_of(partial(Training, spec, _arrays(), base=str(tmp_path)))
        assert found.code == code, (written, found)
        assert found.span is not None, written
        assert found.span.text in text, written
        assert "python(" in found.span.text, written
        if line:
            (note,) = found.notes
            assert f".py:{'1' if 'import' in line else ''}" in note, note
            assert line in note


NESTED = """
  x = input(float32, [4])
  y = input(float32, [3])
  z = x -> python(
    "mine:Around",
    inner = python("mine:Around", inner = Dense(3, activation = python("mine:wave"))),
    factor = 2.0,
  )
  loss = [y, z] -> MeanSquaredError()
"""


def test_arguments_of_the_users_code_are_objects_of_the_users_and_of_keras(tmp_path: Path) -> None:
    """A layer in a layer in a layer, with a function among its arguments, has the arithmetic of NumPy."""
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    spec, arrays = _spec(NESTED, tmp_path, clones__batch="2"), {"x": x, "y": np.ones((4, 3), np.float32)}
    with Training(spec, arrays, base=str(tmp_path)) as tower:
        values = tower.values()
        outputs = np.concatenate(tower.session.run([clone.outputs for clone in tower.compiled.clones]))
    kernel, bias = (
        next(values[name] for name in values if name.endswith(each)) for each in ("/kernel", "/bias")
    )
    np.testing.assert_allclose(outputs, 2.0 * np.sin(2.0 * (x @ kernel + bias)), rtol=1e-5)


OWN_LAYER = """
tfdeploy = 1
model "own" {
  x = input(float32, [4])
  y = input(int32, [])
  logits = x -> python("own_layers:scaled", units = 8, factor = 2.0) -> Dense(3)
  loss = [y, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
"""

MODULE = """
import keras

def scaled(units, factor=1.0):
    return keras.Sequential([keras.layers.Dense(units), keras.layers.Rescaling(factor)])

def nothing(units, factor=1.0):
    return units
"""


def _compile(text: str, folder: Path) -> list[str]:
    """Return the names of the weights of a spec in a folder with the module beside it."""
    (folder / "own_layers.py").write_text(MODULE)
    return list(graph_of(spec_of(text), base=str(folder)).weights)


def test_a_function_beside_the_spec_makes_a_layer(tmp_path: Path) -> None:
    """Its keyword arguments are passed on, and its weights are named after it."""
    names = _compile(OWN_LAYER, tmp_path)
    assert names == ["scaled/dense/kernel", "scaled/dense/bias", "dense/kernel", "dense/bias"]


def test_cells_in_a_list_are_layers() -> None:
    """`StackedRNNCells` has a list of calls as its argument, each of which makes a cell with weights."""
    text = OWN_LAYER.replace(
        'python("own_layers:scaled", units = 8, factor = 2.0)',
        "Reshape([2, 2]) -> RNN(StackedRNNCells([LSTMCell(4), GRUCell(3)]), name = 'rnn')".replace("'", '"'),
    )
    names = list(graph_of(spec_of(text)).weights)
    cells = "rnn/stacked_rnn_cells"
    assert [name.removeprefix(cells) for name in names if name.startswith(cells)] == [
        f"/{cell}/{weight}"
        for cell in ("lstm_cell", "gru_cell")
        for weight in ("kernel", "recurrent_kernel", "bias")
    ]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((3, None, True, ir.Call("Ones"), ir.Call("Constant", (2.0,)), "l1"), {}),
        ((3, None, True, ir.Call("ones"), ir.Call("Constant", (2.0,)), ir.Call("L1", (0.01,))), {}),
        ((3,), {"kernel_regularizer": "l1", "bias_initializer": ir.Call("Constant", (), {"value": 2.0})}),
    ],
)
def test_objects_in_arguments_are_of_the_kind_of_their_place(
    arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """By position as by name. A regularizer has no tensors, because other graphs use it."""
    with tf.Graph().as_default():
        layer = make(ir.Call("Dense", arguments, named), "layer", name="own")
        assert (layer.units, layer.name, layer.bias_initializer.value) == (3, "own", 2.0)
        assert layer.kernel_regularizer.l1 == pytest.approx(0.01)
        assert not isinstance(layer.kernel_regularizer.l1, tf.Tensor)


NUMBERS = np.array([[-2.0, -0.5, 0.5, 3.0]], np.float32)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "wanted"),
    [
        ("leaky_relu", [], {"negative_slope": 0.5}, [-1.0, -0.25, 0.5, 3.0]),
        ("leaky_relu", [0.5], {}, [-1.0, -0.25, 0.5, 3.0]),
        ("relu", [], {"max_value": 2.0}, [0.0, 0.0, 0.5, 2.0]),
        ("relu", [0.5], {"max_value": 2.0}, [-1.0, -0.25, 0.5, 2.0]),
        ("elu", [2.0], {}, [2 * np.expm1(-2), 2 * np.expm1(-0.5), 0.5, 3.0]),
    ],
)
def test_arguments_go_to_the_activation(
    name: str, args: list[Any], kwargs: dict[str, Any], wanted: list[float]
) -> None:
    """By place and by name, and what is not given has its default."""
    made = activation_of(name, *args, **kwargs)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(made(NUMBERS)), [wanted], rtol=1e-6)


SHAPES = """
def begin(shape, dtype=None):
    return tf.zeros(shape[:-1], dtype)
def bound(weight):
    return weight[0]
def penalty(weight):
    return tf.reduce_sum(weight, 0)
"""


@pytest.mark.parametrize(
    ("what", "name", "reason"),
    [
        ("initializer", "begin", "gives [4] in place of [4, 3]"),
        ("constraint", "bound", "gives [3] in place of [4, 3]"),
        ("regularizer", "penalty", "gives [3] in place of []"),
    ],
)
def test_a_result_of_another_shape_is_refused(tmp_path: Path, what: str, name: str, reason: str) -> None:
    """Also for objects of Keras: `stft()` makes kernels that do not fit a `Conv1D` of several channels."""
    (tmp_path / "shapes.py").write_text(f"import tensorflow as tf\n{SHAPES}")
    spec = _spec(_text(z=f'x -> Dense(3, kernel_{what} = python("shapes:{name}"))'), tmp_path)
    found = refusal_of(partial(Training, spec, _arrays(), base=str(tmp_path)))
    assert (found.code, found.notes) == ("TFD507", (f"its {what} {reason}",))
