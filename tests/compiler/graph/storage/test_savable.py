"""What can be trained can be saved and loaded, which is known before training."""

from pathlib import Path

import keras
import numpy as np
import pytest

from compiler.graph.storage.export import keras_model
from compiler.graph.storage.keras_file import require_savable
from tests.support import Training, cloned, marked, refusal_of, spec_of
from tfdeploy import api

SPEC = """
tfdeploy = 1
{block}
model "m" {{
  w = input(int32, [3])
  v = input(float32, [3, 2])
  y = input(float32, [1])
  e = w -> Embedding(10, 2, mask_zero = true)
  {steps}
  p = s -> LSTM(3) -> Dense(1, name = "input_layer")
  loss = [y, p] -> MeanSquaredError()
}}
devices {{ cpu = 1 }}
clones {{ batch = 4 }}
update {{ optimizer = SGD(0.1) }}
data {{
  train = synthetic(8,
    w = feature(int32, [3], classes = 4), v = feature(float32, [3, 2]), y = feature(float32, [1]))
}}
train {{ steps = 1, seed = 1 }}
"""
BLOCK = """layer "both" {
  a = input()
  b = input()
  output = [a, b] -> Concatenate()
}"""
STEPS = {
    "default": ("", "s = [e, v] -> Concatenate()"),
    "user": ("", 's = [e, v] -> Concatenate(name = "any") -> Dense(2, name = "concatenate_1")'),
    "ops": ("", 'm = ops.concatenate([e, v], axis = -1)\n s = [m, e] -> Concatenate(name = "not_equal")'),
    "merged": (
        "",
        'm = v -> Masking(name = "any")\n n = [e, m] -> Add(name = "or")\n s = [n, m] -> Concatenate()',
    ),
    "blocks": (BLOCK, 'm = [e, v] -> both(name = "a/b")\n s = [m, e] -> both(name = "concatenate")'),
}
MINE = """
import keras
class Kept(keras.layers.Layer):
    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor
        self.supports_masking = True
    def call(self, inputs):
        return inputs * self.factor
    def compute_mask(self, inputs, mask):
        return keras.ops.logical_and(mask, keras.ops.any(keras.ops.not_equal(inputs, 0), axis=-1))
class Lost(Kept):
    def get_config(self):
        return {"name": self.name}
def table():
    made = type("Made", (Kept,), {"__init__": lambda self, thing: Kept.__init__(self, 2.0)})
    return made(object())
def local():
    def twice(x):
        return 2 * x
    return keras.layers.Activation(twice)
"""


@pytest.mark.family(every=3)
@pytest.mark.parametrize("name", STEPS)
def test_masks_have_names_of_their_own(name: str, tmp_path: Path) -> None:
    """A model whose masks are computed by ops with names of layers predicts the same after it was loaded."""
    block, steps = STEPS[name]
    generator = np.random.default_rng(0)
    arrays = {
        "w": generator.integers(0, 3, (8, 3)).astype(np.int32),
        "v": generator.random((8, 3, 2), dtype=np.float32),
        "y": np.zeros((8, 1), np.float32),
    }
    with Training(spec_of(SPEC.format(block=block, steps=steps)), arrays) as training:
        require_savable(training.compiled)
        values = training.values()
        found = training.session.run(training.compiled.clones[0].outputs)
    keras_model(training.compiled, {each: values[each] for each in training.compiled.weights}).save(
        tmp_path / "m.keras"
    )
    model = keras.saving.load_model(tmp_path / "m.keras")
    given = {each.name: arrays[each.name][:4] for each in model.inputs}
    np.testing.assert_allclose(np.asarray(model(given)), found, rtol=1e-5, atol=1e-6)


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ('python("mine:Lost", factor = 2.0)', "missing 1 required positional argument: 'factor'"),
        ('python("mine:table")', "must override `get_config()` in order to be serializable"),
        ('python("mine:local")', "Could not locate function 'twice'"),
    ],
)
def test_a_model_that_cannot_be_saved_is_not_trained(tmp_path: Path, step: str, reason: str) -> None:
    """The step whose class or function cannot be written or loaded is named before the first step."""
    (tmp_path / "mine.py").write_text(MINE)
    path = tmp_path / "m.tfdeploy"
    path.write_text(SPEC.format(block="", steps=f"s = [e -> {step}, v] -> Concatenate()"))
    found = refusal_of(
        lambda: api.run(api.load(path, {"train.directory": str(tmp_path / "run")}, allow_python=True))
    )
    assert found.code == "TFD563"
    assert marked(found) == step
    assert reason in found.notes[0]
    assert not list(tmp_path.glob("run/checkpoints/*"))


def test_a_layer_of_which_keras_knows_another_shape_is_not_trained(tmp_path: Path) -> None:
    """Keras does not know that an activation halves the outputs of a layer."""
    path = tmp_path / "m.tfdeploy"
    path.write_text(SPEC.format(block="", steps="s = [e, v] -> Concatenate() -> Dense(4, activation = glu)"))
    found = refusal_of(lambda: api.run(api.load(path, {"train.directory": str(tmp_path / "run")})))
    assert found.code == "TFD563"
    assert marked(found) == "LSTM(3)"
    reason = "Keras makes `lstm/lstm_cell/kernel` as `[4, 12]`, and it is trained as `[2, 12]`"
    assert found.notes == (reason,)


def test_a_class_that_can_be_loaded_is_trained(tmp_path: Path) -> None:
    """A layer of the user's with a mask of its own needs only be named when the file is loaded.

    What its module imports, such as `typing.Any`, does not take the place of an op of Keras of that name.
    """
    (tmp_path / "mine.py").write_text(f"from typing import Any{MINE}")
    path = tmp_path / "m.tfdeploy"
    steps = 's = [e -> python("mine:Kept", factor = 2.0), v] -> Concatenate()'
    path.write_text(SPEC.format(block="", steps=steps))
    result = api.run(api.load(path, {"train.directory": str(tmp_path / "run")}, allow_python=True))
    assert result.status == "finished"
    namespace: dict[str, object] = {}
    exec(MINE, namespace)  # noqa: S102 a text of this file
    model = keras.saving.load_model(tmp_path / "run" / "model.keras", custom_objects=namespace)
    assert [each.name for each in model.inputs] == ["w", "v"]


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ('t -> TextVectorization(vocabulary = ["a"], ragged = true)', "ragged"),
        ('y -> CategoryEncoding(3, output_mode = "one_hot", sparse = true)', "sparse"),
    ],
)
def test_outputs_are_plain_tensors(output: str, kind: str) -> None:
    """An output for which files of predictions have no place is refused where it is made."""
    text = f"""
  x = input(float32, [2])
  t = input(string, [])
  y = input(int32, [])
  p = x -> Dense(3)
  loss = [y, p] -> SparseCategoricalCrossentropy(from_logits = true)
  output = {{ p = p, other = {output} }}
"""
    found = refusal_of(lambda: api.compile(spec_of(cloned(text))))
    assert found.code == "TFD563"
    assert kind in found.notes[0]
