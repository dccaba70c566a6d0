"""Parts of a model that start from files of their own, and stay as they are if they are frozen."""

import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import grammar
from tests.support import refusal
from tfdeploy import api
from tfdeploy.runtime.records.effective import files_of
from tfdeploy.runtime.show.reporting import Reporter

SPEC = """
tfdeploy = 1

layer "enc" {{
  x = input()
  bias = weight([1, 4], initializer = uniform)
  output = (x -> Conv2D(4, 3, name = "conv") -> BatchNormalization(name = "norm") -> Reshape([4, 4])) + bias
}}

model "m" {{
  image = input(float32, [4, 4, 2])
  label = input(float32, [2])
  seen = image -> enc({enc}) -> Flatten()
  other = image -> python("net:build"{net})
  y = [seen, other] -> Concatenate() -> Dense({units}, name = "middle") -> Dense(2, name = "out")
  aside = image -> Flatten() -> Dense(2, name = "aside")
  loss = ([label, y] -> MeanSquaredError()) + ([label, aside] -> MeanSquaredError())
}}

data {{ train = synthetic(16, image = feature(float32, [4, 4, 2]), label = feature(float32, [2])) }}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = 4 }}
update {{
  optimizer = Momentum(0.1)
  {update}
}}
train {{
  seed = 3
  steps = {steps}
  checkpoint_every = 1
  {train}
}}
"""
NET = """
import keras


def build():
    layers = keras.layers
    own = [layers.Conv2D(3, 1), layers.BatchNormalization(), layers.Dropout(0.5), layers.Conv2D(4, 2)]
    return keras.Sequential([keras.Input((4, 4, 2)), *own, layers.GlobalAveragePooling2D()])
"""


def run(
    folder: Path,
    name: str,
    *,
    resume: Any = "never",
    steps: int = 1,
    enc: str = "",
    net: str = "",
    units: int = 3,
    update: str = "",
    train: str = "",
) -> dict[str, Any]:
    """Train a variant of the spec in a run directory `name`, and return the variables at the end."""
    (folder / "net.py").write_text(NET)
    path = folder / f"{name}.tfdeploy"
    path.write_text(SPEC.format(enc=enc, net=net, units=units, update=update, train=train, steps=steps))
    spec = api.load(path, {"train.directory": str(folder / name)}, allow_python=True)
    api.run(spec, reporter=Reporter(), resume=resume)
    reader = tf.train.load_checkpoint(str(folder / name / "checkpoints" / f"model.ckpt-{steps}"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def same(values: dict[str, Any], others: dict[str, Any], part: str) -> bool:
    """Whether all variables of a part are equal in two checkpoints; at least one must be there."""
    names = [name for name in values if name.startswith(part) and not name.endswith("/Momentum")]
    assert names
    return all(np.array_equal(values[name], others[name]) for name in names)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a folder with `whole.keras`, which a run has written, and that run's variables."""
    folder = tmp_path_factory.mktemp("parts")
    values = run(folder, "first")
    shutil.copy(folder / "first" / "model.keras", folder / "whole.keras")
    return folder, values


@pytest.mark.full
@pytest.mark.slow
def test_parts_start_from_files_and_stay_frozen(trained: tuple[Path, dict[str, Any]]) -> None:
    """A block, a model of Keras and a free weight have the values of their files after steps and a resume."""
    folder, values = trained
    other = keras.saving.load_model(folder / "whole.keras").get_layer("build")
    kept = [np.random.default_rng(1).random(each.shape, np.float32) for each in other.weights]
    renamed = keras.models.clone_model(other, clone_function=_renamed)
    renamed.set_weights(kept)
    renamed.save_weights(folder / "net.weights.h5")

    given = {
        "enc": 'weights = "whole.keras", trainable = false',
        "net": ', weights = "net.weights.h5"',
        "units": 5,
        "update": 'freeze = ["build/*"]',
    }
    one = run(folder, "second", **given)
    two = run(folder, "second", **given, resume="must", steps=2)
    assert same(two, values, "enc/")
    assert same(two, one, "build/")
    assert not [name for name in two if name.startswith(("enc/", "build/")) and name.endswith("/Momentum")]
    assert not same(two, one, "middle/")
    found = {name: each for name, each in two.items() if name.startswith("build/")}
    assert len(found) == len(kept)
    assert all(any(np.array_equal(each, value) for each in found.values()) for value in kept)

    spec = grammar.read(folder / "second" / "spec.tfdeploy", allow_python=True).spec
    assert spec is not None
    assert {path.name for path in files_of(spec)} == {"whole.keras", "net.weights.h5"}
    exported = keras.saving.load_model(folder / "second" / "model.keras")
    assert {each.path.split("/")[0] for each in exported.trainable_variables} == {"aside", "middle", "out"}


def _renamed(layer: Any) -> Any:
    """Return a copy of a layer with another name."""
    return type(layer).from_config({**layer.get_config(), "name": f"{layer.name}_of_another_process"})


@pytest.mark.full
@pytest.mark.slow
def test_rules_and_whole_files(trained: tuple[Path, dict[str, Any]]) -> None:
    """The block `weights` starts parts, free weights come back from a file of the whole model."""
    folder, values = trained
    still = 'freeze = ["enc/*", "build/*", "middle/*"]'
    rules = 'weights { "enc/*" -> "whole.keras", "build/*" -> "whole.keras", "middle/*" -> "whole.keras" }'
    found = run(folder, "third", update=still, train=rules)
    assert all(same(found, values, part) for part in ("enc/", "build/", "middle/"))
    found = run(folder, "fourth", update=still, train='weights = "whole.keras"')
    assert all(same(found, values, part) for part in ("enc/", "build/", "middle/"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("given", "code", "place", "notes"),
    [
        (
            {"train": 'weights { "middle/*" -> "whole.keras" }', "units": 7},
            "TFD741",
            '"middle/*" -> "whole.keras"',
            ("`middle/bias` is [3] there and [7] here", "`middle/kernel` is [20, 3] there and [20, 7] here"),
        ),
        (
            {"train": 'weights { "new/conv/*" -> "whole.keras" }', "enc": 'name = "new"'},
            "TFD741",
            '"new/conv/*" -> "whole.keras"',
            ("`new/conv/bias` is not in the file", "`new/conv/kernel` is not in the file"),
        ),
        ({"enc": 'weights = "none.keras"'}, "TFD742", '"none.keras"', ()),
    ],
)
def test_files_that_do_not_fit_a_part(
    trained: tuple[Path, dict[str, Any]], given: dict[str, Any], code: str, place: str, notes: tuple[str, ...]
) -> None:
    """Weights that are missing or have another shape are named, at the place that names the file."""
    found = refusal(run, trained[0], "wrong", **given)
    assert found.code == code
    assert found.notes == notes
    assert found.span.text == place
