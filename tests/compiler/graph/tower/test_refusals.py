"""What a model cannot be made of: every fault is told at its step, none as a fault of the tool."""

from pathlib import Path

import pytest

from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.export import plain_model
from dsl.diagnostics import Diagnostic
from tests.graphs import graph_of
from tests.support import cloned, marked, refusal_of, spec_of

MODEL = """
  x = input(float32, [6, 4])
  label = input(float32, [2])
  z = {flow}
  loss = [label, z] -> MeanSquaredError()
"""


def refused(flow: str) -> Diagnostic:
    """Return the error with which a model of one flow is refused."""
    diagnostic = refusal_of(lambda: graph_of(spec_of(cloned(MODEL.format(flow=flow))), emulate=True))
    assert diagnostic.span is not None
    return diagnostic


def test_wrong_rank_says_what_to_put_before() -> None:
    """Too many axes for an LSTM, and too few, each with the shape of one example and a way out."""
    many = refused("x -> Reshape([6, 2, 2]) -> LSTM(2)")
    assert many.message == "`LSTM` takes 2 axes for each example, not 3"
    assert many.text == "gets `float32 [6, 2, 2]`"
    assert "Flatten()" in many.help
    few = refused("x -> Flatten() -> LSTM(2)")
    assert "Reshape([24, 1])" in few.help


@pytest.mark.parametrize("layer", ["Activation(relu)", "AlphaDropout(0.5)", "AdaptiveMaxPooling1D(2)"])
def test_list_for_a_layer_of_one_tensor(layer: str) -> None:
    """A layer that takes one tensor is not applied to a list, which it would stack on the batch axis."""
    diagnostic = refused(f"[x, x] -> {layer} -> Flatten() -> Dense(2)")
    assert (diagnostic.code, diagnostic.notes) == ("TFD506", ("its input must be one tensor, not 2",))


def test_several_outputs() -> None:
    """A layer that gives several tensors is refused at its step."""
    diagnostic = refused("x -> LSTM(2, return_state = true)")
    assert (diagnostic.code, diagnostic.message) == (
        "TFD555",
        "`LSTM` has 3 outputs, and one is expected here",
    )


NOISY = """
import keras


class Noise(keras.layers.Layer):
    def __init__(self, always, **options):
        super().__init__(**options)
        self.always = always
        self.seed_generator = keras.random.SeedGenerator(3)

    def call(self, x, training=False):
        if not (training or self.always):
            return x
        return x + keras.random.uniform(keras.ops.shape(x), seed=self.seed_generator)
"""


def test_random_numbers_in_predictions(tmp_path: Path) -> None:
    """Of the layers with a random state, the one that draws also without training is refused at its step."""
    (tmp_path / "noisy.py").write_text(NOISY)

    def compiled(always: str) -> CompiledGraph:
        flow = f'x -> Dropout(0.5) -> python("noisy:Noise", always = {always}) -> Flatten() -> Dense(2)'
        return graph_of(spec_of(cloned(MODEL.format(flow=flow))), emulate=True, base=str(tmp_path))

    assert compiled("false").weights
    diagnostic = refusal_of(lambda: compiled("true"))
    assert (diagnostic.code, diagnostic.message) == (
        "TFD527",
        "`noisy:Noise` draws random numbers also when the model predicts",
    )
    assert marked(diagnostic) == 'python("noisy:Noise", always = true)'


def test_input_with_the_name_of_a_layer() -> None:
    """A layer that has no name of its own gets another than the input's, and the Keras model can be made."""
    text = MODEL.format(flow="dense -> Flatten() -> Dense(2)").replace("x = ", "dense = ")
    compiled = graph_of(spec_of(cloned(text)), emulate=True)
    assert list(compiled.weights) == ["dense_1/kernel", "dense_1/bias"]
    exported = plain_model(compiled).model
    assert [each.name for each in exported.inputs] == ["dense"]
    assert exported.name == compiled.plan.model.name


@pytest.mark.parametrize(
    "layer", ["BatchNormalization", "LayerNormalization", "RMSNormalization", "Softmax", "UnitNormalization"]
)
def test_a_single_number_has_no_axis_to_normalize(layer: str) -> None:
    """Keras would take the examples of a batch for features, and make weights as many as a batch has."""
    diagnostic = refused(
        f"x -> Flatten() -> Dense(1) -> Reshape([]) -> {layer}() -> Reshape([1]) -> Dense(2)"
    )
    assert diagnostic.message == f"`{layer}` takes 1 axis or more for each example, not 0"


STEPS = """
  x = input(float32, [4])
  pair = input(float32, [4, 2])
  single = input(float32, [])
  word = input(string, [])
  number = input(int32, [])
  label = input(int32, [])
  {steps}
"""
SQUARES = "y = {}\n  loss = [x, y] -> MeanSquaredError()"
SET = "y = {} -> Dense(2)\n  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)"
TERMS = "y = x -> Dense(1)\n  square = ops.sum(ops.square(x), axis = -1)\n  {}"
NONE = "loss = [x, y] -> MeanSquaredError(reduction = none), output = y"
HUGE = "loss = [x, y] -> MeanSquaredError()\n  metrics { far = [label, y] -> IoU(1000000000000, [0]) }"
WEIGHTS = "y = ops.sin(pair) -> Dense(2)\n  loss = {}"


@pytest.mark.parametrize(
    ("steps", "written", "code", "place"),
    [
        # What only Keras can find out is found when the tower is traced, and points at the operation.
        (SQUARES, "ops.mean(x)", "TFD561", "ops.mean(x)"),
        (SQUARES, "ops.softmax(x, axis = 0)", "TFD561", "ops.softmax(x, axis = 0)"),
        (SQUARES, "ops.reshape(x, [-1, 2])", "TFD561", "ops.reshape(x, [-1, 2])"),
        (SQUARES, "ops.concatenate([x, x], axis = 0)", "TFD561", "ops.concatenate([x, x], axis = 0)"),
        (SQUARES, "ops.transpose(x)", "TFD561", "ops.transpose(x)"),
        (SQUARES, "ops.matmul(x, ops.ones([3, 3]))", "TFD506", "ops.matmul(x, ops.ones([3, 3]))"),
        (SQUARES, "x -> LSTM(3)", "TFD506", "LSTM(3)"),
        (
            SQUARES,
            "x -> Dense(4)(training = true, sideways = 3)",
            "TFD506",
            "Dense(4)(training = true, sideways = 3)",
        ),
        (SQUARES, "ops.split(x, 2, axis = 1)", "TFD555", "ops.split(x, 2, axis = 1)"),
        # A layer that makes one vector of several values would make one of the whole batch.
        (SET, 'word -> StringLookup(vocabulary = ["a"], output_mode = multi_hot)', "TFD506", None),
        (SET, "word -> StringLookup(vocabulary = Identity())", "TFD507", None),
        (SET, "number -> IntegerLookup(vocabulary = [1], output_mode = count)", "TFD506", None),
        (SET, "number -> CategoryEncoding(4, output_mode = multi_hot)", "TFD506", None),
        (SET, "word -> Hashing(4, output_mode = count)", "TFD506", None),
        (SET, "single -> Discretization(bin_boundaries = [1.0], output_mode = multi_hot)", "TFD506", None),
        # Terms of the loss: several numbers for an example, none at all, and a model without a prediction.
        (TERMS, "loss = x, output = y", "TFD590", "x"),
        (TERMS, "loss = y + ops.square(x), output = y", "TFD590", "ops.square(x)"),
        (TERMS, "loss = y + ops.sum(ops.ones([4])), output = y", "TFD591", "ops.sum(ops.ones([4]))"),
        (TERMS, "loss = 2 * y - square", "TFD592", "2 * y"),
        (TERMS, NONE, "TFD506", "[x, y] -> MeanSquaredError(reduction = none)"),
        (TERMS, HUGE, "TFD506", "[label, y] -> IoU(1000000000000, [0])"),
        # Keras would spread these weights along the wrong axis, or fail with a message about broadcasting.
        (WEIGHTS, "[pair, y, single] -> LogCosh()", "TFD506", "[pair, y, single] -> LogCosh()"),
        (WEIGHTS, "[pair, y, pair] -> Dice()", "TFD506", "[pair, y, pair] -> Dice()"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(steps: str, written: str, code: str, place: str | None) -> None:
    """Of operations, layers, terms of the loss and weights of examples; no place means the last step."""
    found = refusal_of(lambda: graph_of(spec_of(cloned(STEPS.format(steps=steps.format(written))))))
    assert found.code == code
    assert marked(found) == (place or written.partition(" -> ")[2])
    if steps == WEIGHTS:
        reason = (
            "one number for the whole batch" if "Dice" in written else "weights of the shape [] cannot weigh"
        )
        assert reason in found.notes[0]
