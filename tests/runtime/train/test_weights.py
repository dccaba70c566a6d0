"""Starting from weights that Keras has saved."""

import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.storage.weight_files import read_weights
from tests.runtime.conftest import Listener, Project
from tests.support import refusal
from tfdeploy import api

HEADS = """
tfdeploy = 1
model "heads" {
  x = input(float32, [4])
  kind = input(int32, [])
  y = input(float32, [2])
  h = x -> SpectralNormalization(Dense(5, name = "inner"), name = "normed") -> Dropout(0.2)
  a = h -> Dense(3, name = "a")
  b = h -> Dense(2, name = "optimizer")
  loss = ([kind, a] -> SparseCategoricalCrossentropy(from_logits = true)) + 2 * ([y, b] -> MeanSquaredError())
}
data { train = npz("d.npz") }
devices { cpu = 1 }
clones { batch = 4 }
update { optimizer = SGD(0.1) }
train { steps = 3, seed = 1 }
"""
ONE = HEADS.replace('h -> Dense(2, name = "optimizer")', "a[:, 0:2]")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model of a run of the spec, which no test changes."""
    project = Project(tmp_path_factory.mktemp("trained"))
    project.run(train__steps=10)
    return project.run_directory / "model.keras"


@pytest.mark.family(every=2)
@pytest.mark.parametrize("name", ["start.keras", "start.weights.h5"])
def test_a_run_starts_from_them(project: Project, trained: Path, name: str) -> None:
    """Both of Keras's files give every weight, and its moving average, the value it has there."""
    model = keras.saving.load_model(trained, compile=False)
    path = project.folder / name
    model.save(path) if name.endswith(".keras") else model.save_weights(path)
    project.run(train__steps=1, train__weights=name, update__optimizer="SGD(1e-30)")
    started = project.variables(1)
    for variable in model.trainable_variables:
        assert np.array_equal(started[variable.path], variable.numpy()), variable.path
        assert np.array_equal(started[f"{variable.path}/ExponentialMovingAverage"], variable.numpy())


def test_every_weight_that_does_not_fit_is_named(project: Project, trained: Path) -> None:
    """Weights in another shape, without a place and missing are all named, at the line of the spec."""
    shutil.copy(trained, project.folder / "start.keras")
    text = project.spec.read_text()
    text = text.replace("Dense(16,", "Dense(24,").replace('name = "logits")', 'name = "digits")')
    project.write(text.replace("steps = 60", 'steps = 60\n  weights = "start.keras"'))
    found = refusal(project.run)
    assert found.code == "TFD741"
    assert found.span.text == '"start.keras"'
    assert found.notes == (
        "`digits/bias` is not in the file",
        "`digits/kernel` is not in the file",
        "`hidden/bias` is [16] there and [24] here",
        "`hidden/kernel` is [64, 16] there and [64, 24] here",
        "the model has no place for `logits/0`, [16, 10]",
        "and 1 more",
    )


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.keras", "no such file or directory"),
        ("text.keras", "it is not a Keras archive"),
        ("text.weights.h5", "it is not an HDF5 file"),
    ],
)
def test_files_that_are_no_weights(project: Project, tmp_path: Path, name: str, reason: str) -> None:
    """A file that is not there or of another kind is said before anything is trained."""
    if name.startswith("text"):
        (tmp_path / name).write_text("no weights")
    found = refusal(project.run, train__weights=name)
    assert found.code == "TFD742"
    assert found.message == f"the weights in `{tmp_path / name}` cannot be read: {reason}"


class Heads:
    """A folder with a spec with two losses, and a run of it."""

    def __init__(self, folder: Path) -> None:
        generator = np.random.default_rng(0)
        self.folder, self.examples = folder, generator.random((16, 4), dtype=np.float32)
        labels = {"y": self.examples[:, :2], "kind": generator.integers(0, 3, 16).astype(np.int32)}
        np.savez(folder / "d.npz", x=self.examples, **labels)
        api.run(self.spec("first"))
        self.model = folder / "runs" / "first" / "model.keras"

    def spec(self, name: str, text: str = HEADS, **overrides: Any) -> Any:
        """Return a variant of the spec, whose directory has its name."""
        path = self.folder / f"{name}.tfdeploy"
        path.write_text(text)
        given = {each.replace("__", "."): value for each, value in overrides.items()}
        return api.load(path, {"train.directory": str(self.folder / "runs" / name), **given})

    def variables(self) -> dict[str, Any]:
        """Return the variables at the end of the run."""
        reader = tf.train.load_checkpoint(str(self.model.parent / "checkpoints" / "model.ckpt-3"))
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    def refused(self, text: str, path: Path) -> Any:
        """Return the diagnostic about a file of weights of another model."""
        compiled = api.compile(self.spec("other", text))
        found = refusal(read_weights, compiled, path, None, base=str(self.folder))
        assert found.code == "TFD741"
        return found


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Heads:
    """Return the run of the spec with two losses, which no test changes."""
    return Heads(tmp_path_factory.mktemp("heads"))


def test_all_heads_are_written_and_read(heads: Heads) -> None:
    """A file has what each loss needs; the states of optimizers and weights listed twice fit, too.

    Adapters, which no file has, begin as they are.
    """
    model = keras.saving.load_model(heads.model)
    found = {name: np.asarray(each) for name, each in model(heads.examples).items()}
    api.predict(heads.spec("first"), heads.folder / "d.npz", heads.folder / "p.npz")
    with np.load(heads.folder / "p.npz", allow_pickle=False) as predicted:
        assert {name: each.shape for name, each in predicted.items()} == {"a": (16, 3), "b": (16, 2)}
        for name, each in predicted.items():
            np.testing.assert_allclose(each, found[name], rtol=1e-5, atol=1e-6)
    model.compile("adam", {"a": "mse", "b": "mse"})
    model.save(heads.folder / "compiled.keras")
    trained = heads.variables()
    adapted = api.compile(heads.spec("adapted", HEADS.replace("Dense(3,", "Dense(3, lora_rank = 2,")))
    plain = api.compile(heads.spec("again"))
    for path, compiled in (
        (heads.model, plain),
        (heads.folder / "compiled.keras", plain),
        (heads.model, adapted),
    ):
        values = read_weights(compiled, path, None, base=str(heads.folder))
        assert values.keys() == trained.keys() - {"global_step"}
        for name, each in values.items():
            np.testing.assert_array_equal(each, trained[name], err_msg=name)


@pytest.mark.full
def test_heads_without_weights_or_place_are_named(heads: Heads) -> None:
    """A file without the head that `output` leaves out is refused, and one with a head that is not there."""
    part = heads.spec("part", HEADS.replace("  loss", "  output = a\n  loss"))
    api.run(part)
    found = heads.refused(HEADS, heads.folder / "runs" / "part" / "model.keras")
    assert found.notes == ("`optimizer/bias` is not in the file", "`optimizer/kernel` is not in the file")
    assert found.help is not None
    compiled = api.compile(heads.spec("other"))
    known = {"optimizer/bias", "optimizer/kernel"}  # start from another file
    path = heads.folder / "runs" / "part" / "model.keras"
    values = read_weights(compiled, path, None, base=str(heads.folder), elsewhere=known)
    assert values.keys() == compiled.weights.keys() - known
    assert heads.refused(ONE, heads.model).notes == (
        "the model has no place for `optimizer/0`, [5, 2]",
        "the model has no place for `optimizer/1`, [2]",
    )

    said = Listener()
    rule = f'weights {{ "a/*" -> "{heads.model}" }}'
    api.run(heads.spec("one", ONE.replace("seed = 1", f"seed = 1, {rule}")), reporter=said)
    assert any("`normed/0`" in each and "`optimizer/1`, [2]" in each for each in said.notes)


def test_what_a_checkpoint_has_beyond_the_model_is_named(heads: Heads) -> None:
    """A checkpoint with a head that the model has not any more is used, and a warning names the head."""
    warnings: list[Any] = []
    api.evaluate(heads.spec("first", ONE, data__test='npz("d.npz")'), warn=warnings.append)
    (found,) = [each for each in warnings if each.code == "TFD716"]
    assert "has `optimizer/bias` and `optimizer/kernel`" in found.message
