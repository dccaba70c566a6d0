"""Layers of the user's own Python, objects among their arguments, and what Keras refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.tower.network.network import activation_of, make
from dsl import ir
from dsl.diagnostics import RunError
from tests.graphs import graph_of
from tests.support import marked, refusal_of, spec_of

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


def test_a_function_that_makes_no_layer_is_refused_at_the_step(tmp_path: Path) -> None:
    """The message names what it returned."""
    diagnostic = refusal_of(lambda: _compile(OWN_LAYER.replace(":scaled", ":nothing"), tmp_path))
    assert (diagnostic.code, diagnostic.message, diagnostic.help) == (
        "TFD585",
        "`own_layers:nothing` returned an object of class `int`",
        "return a Keras layer or model",
    )


def test_a_function_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    """A misspelt function is a fault of the run's surroundings, located at the step."""
    with pytest.raises(RunError) as caught:
        _compile(OWN_LAYER.replace(":scaled", ":scald"), tmp_path)
    assert caught.value.diagnostic.code == "TFD714"
    assert caught.value.diagnostic.help == "there is `scaled`"


def test_a_layer_that_does_not_fit_names_the_step_and_the_shapes() -> None:
    """A convolution on vectors is refused at the convolution, with the shape that reaches it."""
    text = OWN_LAYER.replace('python("own_layers:scaled", units = 8, factor = 2.0)', "Conv2D(3, 3)")
    diagnostic = refusal_of(lambda: graph_of(spec_of(text)))
    message = "`Conv2D` takes 3 axes or more for each example, not 1"
    assert (diagnostic.code, diagnostic.message) == ("TFD506", message)
    assert diagnostic.text == "gets `float32 [4]`"
    assert diagnostic.help is not None
    assert "`-> Reshape([4, 1, 1])`" in diagnostic.help
    assert marked(diagnostic) == "Conv2D(3, 3)"


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


@pytest.mark.parametrize("name", ["relu", "softmax", "leaky_relu", "tanh"])
def test_without_arguments_an_activation_is_its_name(name: str) -> None:
    """As if it were written without brackets."""
    assert activation_of(name) == name


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
