"""`init --data`: specs from files of examples, which read and train on what the files hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import grammar
from dsl.diagnostics import RunError
from tfdeploy.onramp.examples import first_spec, fitted
from tfdeploy.onramp.looking import look

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Command

FLOWERS = "".join(
    f"{at % 7}.5,{at % 5},{'red' if at % 2 else 'blue'},f{at},{'' if at == 2 else at},x,"
    f'"{"a, b" if at % 3 else "c"}"\n'
    for at in range(24)
)


def flowers(folder: Path) -> Path:
    """Write a table with numbers, words, an identifier, a missing number, a constant and quoted labels."""
    path = folder / "flowers.csv"
    path.write_text(f"Petal width,petals,colour,id,age,one,species\n{FLOWERS}")
    return path


TABLE = """\
model "flowers" {
  petal_width = input(float32, [1])
  petals = input(float32, [1])
  colour = input(string, [])
  species = input(string, [])

  # A first model, to begin with.
  petal_width_vector = petal_width -> Normalization(adapt = data.train)
  petals_vector = petals -> Normalization(adapt = data.train)
  colour_vector = colour
    -> StringLookup(vocabulary = ["blue", "red"])
    -> Embedding(3, 8)
"""
DATA = """\
data {
  # petal_width: 0.5 to 6.5
  # petals: 0 to 4
  # colour: 2 different words
  # species: 2 different words
  # `species` is taken for the label because of its name
  # The column `id` is left out: its words are all different
  # The column `age` is left out: 1 of its cells has no number, the first in row 4
  # The column `one` is left out: all of its cells are the same
  train = csv("flowers.csv",
"""


def test_a_table_becomes_a_spec_that_trains(command: Command) -> None:
    """With what was seen, how the label was guessed, and what is left out; the file is not replaced."""
    flowers(command.directory)
    assert command("init", "--data", "flowers.csv").code == 0
    text = command.read("flowers.tfdeploy")
    assert "".join(text.split()).startswith("".join(f"tfdeploy=1{TABLE}".split()))
    assert DATA in text
    assert 'vocabulary = ["a, b", "c"]' in text
    assert command("check", "flowers.tfdeploy").code == 0
    done = command("compile-and-run", "flowers.tfdeploy", "--set", "train.epochs=1")
    assert done.code == 0
    assert "finished" in done.out
    again = command("init", "--data", "flowers.csv")
    assert again.code == 2
    assert "TFD753" in again.err


def test_a_model_gets_the_examples_that_fit_it(command: Command) -> None:
    """By size if names differ; a type of its own is cast; what does not fit is said with what there is."""
    generator = np.random.default_rng(1)
    arrays = {
        "x_train": generator.integers(0, 255, (40, 4, 2), dtype=np.uint8),
        "y_train": generator.integers(0, 3, 40),
        "x_test": generator.integers(0, 255, (8, 4, 2), dtype=np.uint8),
        "y_test": generator.integers(0, 3, 8),
    }
    np.savez(command.directory / "small.npz", **arrays)
    x = keras.Input((8,), name="pixels")
    model = keras.Model(x, layers.Dense(3, activation="softmax", name="kind")(x), name="small")
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.save(command.directory / "small.keras")
    assert command("init", "--from", "small.keras", "--data", "small.npz").code == 0
    text = command.read("small.tfdeploy")
    assert 'train = npz("small.npz", pixels = "x_train", label = "y_train")' in text
    assert 'test = npz("small.npz", pixels = "x_test", label = "y_test")' in text
    assert "-> reshape(pixels, [8])" in text
    assert "-> cast(label, int32)" in text
    done = command("compile-and-run", "small.tfdeploy")
    assert done.code == 0
    assert "finished" in done.out
    np.savez(command.directory / "other.npz", x=np.zeros((4, 7)), y=np.zeros(4, int))
    done = command("init", "--from", "small.keras", "other.tfdeploy", "--data", "other.npz")
    assert done.code == 2
    assert "TFD792" in done.err
    assert "nothing in it fits the input `pixels`, float32 [8]; there is `x` float64 [7]" in done.err
    assert not (command.directory / "other.tfdeploy").exists()


def test_columns_are_joined_for_an_input_that_takes_as_many(tmp_path: Path) -> None:
    """By a glob if they are numbered. A label with more classes than the model tells apart is refused."""
    path = tmp_path / "digits.csv"
    path.write_text("pixel_0,pixel_1,pixel_2,digit\n" + "1,2,3,4\n3,2,1,0\n" * 4)
    found = look(path)
    from dsl import ir

    inputs, labels = {"image": ir.Input("float32", (3,))}, {"label": ir.Input("int32", ())}
    text = fitted(found, inputs, labels, {"label": 5}).block(tmp_path)
    assert 'train = csv("digits.csv", image = "pixel_*", label = "digit")' in text
    with pytest.raises(RunError, match="TFD792"):
        fitted(found, inputs, labels, {"label": 4})


def arrays(folder: Path) -> Path:
    """Write an archive with arrays of each kind."""
    path = folder / "table.npz"
    np.savez(
        path, a=np.eye(9, 3), when=np.arange(9), words=np.array(["x", "y", "z"] * 3), price=np.arange(9.0)
    )
    return path


def records(folder: Path) -> Path:
    """Write records with an image, a list, a word, a number and a list of any length."""
    path = folder / "x.tfrecord"
    image = tf.io.encode_png(np.zeros((6, 5, 3), np.uint8)).numpy()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for at in range(9):
            features = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                "list": tf.train.Feature(float_list=tf.train.FloatList(value=[at, 1.0])),
                "word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"ab"[at % 2 :][:1]])),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[at % 3])),
                "any": tf.train.Feature(int64_list=tf.train.Int64List(value=range(at))),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return path


def images(folder: Path) -> Path:
    """Write grey images of two sizes in a folder for each class."""
    for name in ("cat", "dog"):
        (folder / "pets" / name).mkdir(parents=True)
        for at in range(4):
            data = tf.io.encode_jpeg(np.zeros((8 + 2 * (at % 2), 6, 1), np.uint8)).numpy()
            (folder / "pets" / name / f"{at}.jpg").write_bytes(data)
    return folder / "pets"


KINDS: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "npz": (
        arrays,
        [
            "a = input(float32, [3])",
            '-> StringLookup(vocabulary = ["x", "y", "z"])',
            "when = input(int32, [])",
            "# `when` is taken for the label because it holds a whole number for each example",
        ],
    ),
    "tfrecord": (
        records,
        [
            "image = feature(uint8, [6, 5, 3], encoding = image)",
            "list = feature(float32, [2])",
            "# The feature `any` is left out: it has 0 to 8 values, for which `pad` is needed",
            "# `label` is taken for the label because of its name",
        ],
    ),
    "images": (
        images,
        [
            'images("pets", [9, 6], channels = 1)',
            "# `label` is taken for the label because it is the number of the folder: cat, dog",
            "# The images are 8 to 10 high and 6 to 6 wide, and all are brought to the same size",
        ],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_each_kind_are_looked_at(tmp_path: Path, kind: str) -> None:
    """What they hold becomes inputs; the spec has no fault and reads its examples."""
    make, lines = KINDS[kind]
    path = make(tmp_path)
    text = first_spec(look(path), "first", tmp_path)
    for line in lines:
        assert line in text
    spec = tmp_path / "first.tfdeploy"
    spec.write_text(text)
    assert list(grammar.read(spec).diagnostics) == []
    from tfdeploy import compile as compile_spec
    from tfdeploy import load

    assert compile_spec(load(spec), emulate=True).data_loss is not None


def _file(name: str, content: str | bytes) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        data = content.encode() if isinstance(content, str) else content
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
        return folder / name

    return made


def _unequal(folder: Path) -> Path:
    np.savez(folder / "odd.npz", a=np.eye(4), b=np.eye(3))
    return folder / "odd.npz"


FAULTS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no header": (_file("a.csv", "1,2\n3,4\n"), "TFD709.*row 1.*holds numbers"),
    "empty": (_file("a.csv", ""), "TFD703.*the file is empty"),
    "no rows": (_file("a.csv", "a,b\n"), "TFD703.*no row but the header"),
    "a short row": (_file("a.csv", "a,b\n1,2\n1\n"), "TFD705.*row 3"),
    "an open quote": (_file("a.csv", 'a,b\n"1,2\n'), "TFD708.*row 2"),
    "semicolons": (_file("a.csv", "a;b\n1;2\n"), "TFD709.*not separated by commas"),
    "a name twice": (_file("a.csv", "a,a\n1,2\n"), "TFD709.*2 columns `a`"),
    "nothing to read": (_file("a.csv", "id\nx\ny\n"), "TFD792.*its words are all different"),
    "no archive": (_file("a.npz", "text"), "TFD702"),
    "arrays of other lengths": (_unequal, "TFD792.*`a` has 4, `b` has 3"),
    "no records": (_file("a.tfrecord", b"text"), "TFD710"),
    "another kind": (_file("a.txt", "text"), "TFD792.*ends neither"),
    "no image": (
        lambda folder: _file("pets/cat/1.jpg", "text")(_made(folder)).parent.parent,
        "TFD713.*1.jpg",
    ),
    "a folder of nothing": (lambda folder: folder, "TFD703"),
    "nothing": (lambda folder: folder / "a.csv", "TFD701"),
}


def _made(folder: Path) -> Path:
    (folder / "pets").mkdir()
    return folder


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_read_is_said_with_its_place(tmp_path: Path, fault: str) -> None:
    """By the messages of the sources, and TFD792 for what only `init` needs."""
    make, said = FAULTS[fault]
    with pytest.raises(RunError) as caught:
        look(make(tmp_path))
    told: Any = caught.value.diagnostic
    import re

    assert re.search(said, f"{told.code} {told.message}", re.DOTALL), (told.code, told.message)
