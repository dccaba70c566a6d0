"""`model.keras` of every example: plain Keras loads it in a fresh process and predicts as `predict` does."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_examples import EXAMPLES
from tfdeploy import api

KERAS_ALONE = """
import sys
from pathlib import Path
import keras, numpy
for folder in map(Path, sys.argv[1:]):
    model = keras.saving.load_model(folder / "run" / "model.keras", compile=False)
    given = dict(numpy.load(folder / "ready.npz"))
    given = given if len(given) > 1 else next(iter(given.values()))
    numpy.save(folder / "theirs.npy", model(given, training=False))
unwelcome = {"tfdeploy", "compiler", "grammar", "dsl"} & set(sys.modules)
assert not unwelcome, unwelcome
"""

PARTS = """
tfdeploy = 1
layer "bump" {
  width = parameter(int)
  x = input()
  y = x -> Dense(width, activation = relu, name = "inner") -> Dropout(0.5)
  output = [x, y] -> Concatenate()
}
model "parts" {
  left = input(float32, [32, 32, 3])
  right = input(float32, [32, 32, 3])
  label = input(int32, [])
  eye = layer(applications.VGG16(input_shape = [32, 32, 3], weights = none, include_top = false))
  shared = layer(Dense(8, name = "shared"))
  a = left -> eye -> GlobalAveragePooling2D() -> shared -> bump(4)
  b = right -> eye -> GlobalAveragePooling2D() -> shared -> bump(4)
  logits = [a, b] -> Subtract() -> repeat(2, bump(3)) -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
data {
  train = synthetic(16,
    left = feature(float32, [32, 32, 3]),
    right = feature(float32, [32, 32, 3]),
    label = feature(int32, classes = 3))
}
devices { gpu = 1 }
clones { batch = 4 }
update { optimizer = SGD(1e-3), ema = 0.5 }
"""

ROUNDINGS = 256  # ops in a row that round: ResNet-50 has 175 layers, and each of a few ops
EPSILON = float(np.finfo(np.float32).eps)

Inputs = dict[str, np.ndarray[Any, Any]]


def random(*shape: int) -> np.ndarray[Any, Any]:
    """Return random numbers between 0 and 1."""
    return np.random.default_rng(5).random(shape, dtype=np.float32)


def cifar10(folder: Path) -> None:
    """Write files of the binary version of CIFAR-10, with few pictures of noise."""
    pictures = np.random.default_rng(0).integers(0, 256, (8, 3073), dtype=np.uint8)
    pictures[:, 0] %= 10
    (folder / "data" / "cifar-10-batches-bin").mkdir(parents=True)
    for name in ("data_batch_1.bin", "test_batch.bin"):
        (folder / "data" / "cifar-10-batches-bin" / name).write_bytes(pictures.tobytes())


def as_they_are(inputs: Inputs) -> Inputs:
    """Return what the model takes, where the spec transforms nothing."""
    return inputs


# For each example: settings that make it small, the raw inputs, and what the spec's transforms make of them.
CASES: dict[str, tuple[dict[str, Any], Inputs, Callable[[Inputs], Inputs]]] = {
    "cifar10": (
        {"clones.batch": 2},
        {"image": np.random.default_rng(1).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)},
        lambda raw: {"image": raw["image"].astype(np.float32) / 128 - 1},
    ),
    "digits": ({}, {"image": 16 * random(4, 8, 8, 1)}, lambda raw: {"image": raw["image"] / 16}),
    "resnet50": (
        {"devices.gpu": 1, "clones.batch": 1},
        {"image": random(2, 64, 64, 3)},
        as_they_are,
    ),
    "transformer": (
        {},
        {"characters": np.random.default_rng(2).integers(0, 128, (4, 48), dtype=np.int32)},
        as_they_are,
    ),
    "recommender": (
        {"update.mode": "sync"},
        {
            "user": np.array(["u0001", "u0399", "u0017", "nobody"]),
            "item": np.array(["i001", "i149", "i005", "nothing"]),
            "shop": np.array(["s0", "s7", "s3", "s1"]),
            "figures": random(4, 2),
        },
        as_they_are,
    ),
    "parts": ({}, {"left": random(4, 32, 32, 3), "right": random(4, 32, 32, 3)[::-1].copy()}, as_they_are),
}


QUICK = ("digits",)
"""The cases that run always: convolutions and averaged weights."""


def test_every_example_is_among_the_cases() -> None:
    """No example is left out."""
    assert {path.stem for path in EXAMPLES} <= CASES.keys()


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives the folder of a case, for which those that run with it are made, once."""
    others = tuple(name for name in CASES if name not in QUICK)

    @cache
    def made(names: tuple[str, ...]) -> Path:
        return predictions(tmp_path_factory.mktemp("models"), names)

    return lambda name: made(QUICK if name in QUICK else others) / name


def predictions(root: Path, names: Iterable[str]) -> Path:
    """Train cases for two steps; let `predict`, and a process with Keras alone, predict the same."""
    for name in names:
        settings, inputs, transformed = CASES[name]
        folder = root / name
        folder.mkdir()
        overrides = {"train.steps": 2, "train.directory": str(folder / "run"), "train.seed": 1, **settings}
        spec = api.load(prepare(name, folder), overrides)
        api.run(spec, emulate=True)
        np.savez(folder / "inputs.npz", **inputs)
        api.predict(spec, folder / "inputs.npz", folder / "ours.npz", emulate=True)
        np.savez(folder / "ready.npz", **transformed(inputs))
    folders = [str(root / name) for name in names]
    done = subprocess.run(
        [sys.executable, "-c", KERAS_ALONE, *folders], cwd=root, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return root


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.full) for name in CASES]
)
def test_keras_alone_predicts_what_predict_does(name: str, predicted: Callable[[str], Path]) -> None:
    """The two agree but for rounding, with averages where there are any; the outputs are of ordinary size.

    The two run the same layers in graphs that TensorFlow arranges differently. Each of up to ROUNDINGS ops in
    a row may round differently, by a part of what the outputs are large.
    """
    folder = predicted(name)
    theirs = np.load(folder / "theirs.npy")
    (ours,) = np.load(folder / "ours.npz").values()
    assert ours.shape == theirs.shape
    assert len(ours) == len(next(iter(CASES[name][1].values())))
    assert np.ptp(theirs) > 0
    largest = float(np.max(np.abs(theirs)))
    assert largest < 100
    assert np.max(np.abs(ours - theirs)) <= ROUNDINGS * EPSILON * max(1.0, largest)


def prepare(name: str, folder: Path) -> Path:
    """Write a spec with its data into a folder; return its path."""
    path = folder / f"{name}.tfdeploy"
    if name == "parts":
        path.write_text(PARTS)
        return path
    (example,) = (each for each in EXAMPLES if each.stem == name)
    shutil.copy(example, path)
    if name == "cifar10":
        cifar10(folder)
    else:
        shutil.copytree(example.parent / "data", folder / "data")
    if name == "resnet50":
        path.write_text(calmed(smaller(path.read_text())))
    return path


def smaller(text: str) -> str:
    """Return the text of ResNet-50 for small images, with blocks of each kind in each stage, but fewer."""
    small = text.replace("[224, 224, 3]", "[64, 64, 3]")
    few = re.sub(r"stage\((\d+), [346]", r"stage(\1, 2", small)
    assert text != small != few
    return few


def calmed(text: str) -> str:
    """Return the text of ResNet-50 so that two steps are enough for outputs of ordinary size.

    The statistics of a normalisation need hundreds of steps to forget their first values, which say nothing
    of the data. Before that each layer passes on what is too large, and the outputs are of the size of
    1e12.
    """
    quick = text.replace("BatchNormalization(", "BatchNormalization(momentum = 0.5, ")
    gentle = quick.replace("CosineDecay(0.1,", "CosineDecay(1e-4,")
    assert text != quick != gentle
    return gentle
