"""Weights that others have trained: a run fetches them, and nothing else does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.legacy.saving import legacy_h5_format
from keras.src.utils import file_utils

from dsl import ir
from tests.runtime.conftest import Listener
from tests.support import refusal
from tfdeploy import api

SPEC = """
tfdeploy = 1
model "eye" {{
  image = input(float32, [128, 128, 3])
  label = input(int32, [])
  seen = image
    -> applications.MobileNet(input_shape = [128, 128, 3], alpha = 0.25, include_top = false{weights})
  logits = seen -> GlobalAveragePooling2D() -> Dense(2, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}
data {{
  train = synthetic(4, image = feature(float32, [128, 128, 3]), label = feature(int32, classes = 2))
}}
update {{ optimizer = SGD(1e-30) }}
clones {{ batch = 2 }}
train {{ steps = 1 }}
"""
FILE = "mobilenet_2_5_128_tf_no_top.h5"


@pytest.fixture
def fetched(tmp_path: Path) -> Iterator[list[str]]:
    """Cut Keras off from the network and from its folder; return the addresses that it wanted."""
    wanted: list[str] = []

    def fetch(origin: str, *_: Any) -> None:
        wanted.append(origin)
        raise URLError("no network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_utils, "urlretrieve", fetch)
        patch.setattr(file_utils.config, "keras_home", lambda: str(tmp_path / "home"))
        yield wanted


def load(folder: Path, weights: str = "") -> ir.Spec:
    """Return the spec with `weights` among the arguments of its application."""
    path = folder / "eye.tfdeploy"
    path.write_text(SPEC.format(weights=weights))
    return api.load(path, {"train.directory": str(folder / "run")})


def write_weights(path: Path) -> list[Any]:
    """Write a file of weights as those for ImageNet are, with random numbers; return these."""
    model = keras.applications.MobileNet(
        input_shape=(128, 128, 3), alpha=0.25, include_top=False, weights=None
    )
    generator = np.random.default_rng(3)
    model.set_weights([generator.random(each.shape, np.float32) for each in model.get_weights()])
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as store:
        legacy_h5_format.save_weights_to_hdf5_group(store, model)
    return model.get_weights()


@pytest.mark.full
def test_only_a_run_fetches_weights(tmp_path: Path, fetched: list[str]) -> None:
    """Compiling does without; a run offline ends at the step that wants them, and names the file."""
    spec = load(tmp_path)
    api.compile(spec)
    assert fetched == []
    listener = Listener()
    refused = refusal(api.run, spec, reporter=listener)
    assert [Path(origin).name for origin in fetched] == [FILE]
    assert listener.notes == [f"fetching the weights of `applications.MobileNet`: {fetched[0]}"]
    found = refused
    assert found.code == "TFD754"
    assert found.message == "the weights of `applications.MobileNet` cannot be fetched: no network"
    assert found.notes == (f"the file is {fetched[0]}",)
    target = tmp_path / "home" / "models" / FILE
    assert found.help == f"put it there as `{target}`, or write `weights = none`"
    assert found.span.text.startswith("applications.MobileNet(")


@pytest.mark.full
@pytest.mark.parametrize("place", ["home", "spec"])
def test_a_run_starts_from_them(tmp_path: Path, fetched: list[str], place: str) -> None:
    """Weights on this machine, in Keras's folder or beside the spec, are those that training starts from."""
    path = tmp_path / "home" / "models" / FILE if place == "home" else tmp_path / "own.h5"
    values = write_weights(path)
    listener = Listener()
    api.run(load(tmp_path, ', weights = "own.h5"' if place == "spec" else ""), reporter=listener)
    assert (fetched, listener.notes) == ([], [])
    reader = tf.train.load_checkpoint(str(tmp_path / "run" / "checkpoints" / "model.ckpt-1"))
    saved = [reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if "moving" not in name]
    kernels = [value for value in values if value.ndim == 4]
    assert len(kernels) == 27
    for kernel in kernels:  # others change by the step, or are written down with it
        assert any(each.shape == kernel.shape and np.array_equal(each, kernel) for each in saved)


@pytest.mark.full
def test_a_file_of_weights_names_no_other(tmp_path: Path, fetched: list[str]) -> None:
    """What a file of weights may not have in it is refused here as everywhere."""
    with h5py.File(tmp_path / "own.h5", "w") as store:
        store.create_dataset("x", (3,), "f4", external=[(str(tmp_path / "secret"), 0, 12)])
    found = refusal(api.run, load(tmp_path, ', weights = "own.h5"'))
    assert found.code == "TFD742"
    assert fetched == []
