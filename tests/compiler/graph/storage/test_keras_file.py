"""Files of Keras are the same whether large weights are written slice by slice or by Keras."""

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

from compiler.graph.storage.keras_file import write_keras_file
from compiler.graph.storage.saving import add_saving
from tests.support import Training, cloned, spec_of

WORDS = """
  word = input(int32, [5])
  rating = input(float32, [2])
  label = input(int32, [])
  rows = word -> Embedding(100, 8, name = "table") -> Flatten() -> Dropout(0.2, name = "drop")
  scaled = rating -> BatchNormalization(name = "scaled")
  wide = [rows, scaled] -> Concatenate() -> SpectralNormalization(Dense(64), name = "wide")
  logits = wide -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""


@pytest.fixture(scope="module")
def trained() -> Iterator[Training]:
    """A model with a table in pieces, after two steps."""
    generator = np.random.default_rng(3)
    data = {
        "word": generator.integers(0, 100, (8, 5)).astype(np.int32),
        "rating": generator.normal(size=(8, 2)).astype(np.float32),
        "label": generator.integers(0, 3, 8).astype(np.int32),
    }
    place = 'variables -> cpu[0], variables("table/*") -> sharded(cpu[*])'
    text = cloned(WORDS, place=place, update="optimizer = Adam(0.1), ema = 0.9", seed=7)
    with Training(spec_of(text), data) as training:
        training.steps(2)
        yield training


def _inside(path: Path) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]], set[str]]:
    """Return the arrays of a file, the attributes of its groups, and the names of its members."""
    arrays, attributes = {}, {}
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as store:
            items: list[tuple[str, Any]] = []
            store.visititems(lambda name, item: items.append((name, item)))
            for name, item in items:
                attributes[name] = dict(item.attrs)
                if isinstance(item, h5py.Dataset):
                    arrays[name] = item[()]
        config = re.sub(r', "shared_object_id": \d+', "", archive.read("config.json").decode())
    return arrays, {**attributes, "config": {"text": config}}, names


@pytest.mark.full
def test_a_file_written_by_slices_is_the_file_of_keras(trained: Training, tmp_path: Path) -> None:
    """Every array, attribute and member, and nothing that is fetched is larger than a slice."""
    session, largest = trained.session, []

    def watched(fetches: Any) -> Any:
        found = session.run(fetches)
        if isinstance(found, np.ndarray):
            largest.append(found.nbytes)
        elif isinstance(found, dict):
            assert not {"table/embeddings/ExponentialMovingAverage"} & found.keys()
        return found

    most = 25 * 8 * 4  # the table has 100 rows of 8, `wide` 42 rows of 64, `logits` is smaller
    folder, plain, sliced = tmp_path / "parts", tmp_path / "plain.keras", tmp_path / "sliced.keras"
    write_keras_file(trained.compiled, add_saving(trained.compiled), session.run, plain, folder)
    write_keras_file(trained.compiled, add_saving(trained.compiled, most=most), watched, sliced, folder)
    arrays, attributes, names = _inside(plain)
    found = _inside(sliced)
    assert found[2] == names
    assert found[1].keys() == attributes.keys()
    for name, each in attributes.items():
        assert found[1][name] == each, name
    assert found[0].keys() == arrays.keys()
    assert all((found[0][name] == each).all() for name, each in arrays.items())
    assert all(found[0][name].dtype == each.dtype for name, each in arrays.items())
    assert max(largest) == max(most // 4 // 32 * 32, 64 * 4)  # rows of the table, a row of `wide`
    assert sum(largest) == (100 * 8 + 42 * 64) * 4
    assert not folder.exists()
    inputs = {"word": np.arange(10).reshape(2, 5), "rating": np.ones((2, 2), np.float32)}
    models = [keras.saving.load_model(each, compile=False) for each in (plain, sliced)]
    first, second = (np.asarray(each(inputs)) for each in models)
    assert (first == second).all()
