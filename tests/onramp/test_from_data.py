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


def table(**more: Any) -> Any:
    """Return a table with numbers, lists, an image in a struct, and columns of each kind that is left out."""
    import pyarrow as pa  # here, because it starts threads, and tests are forked

    image = tf.io.encode_png(np.zeros((6, 5, 3), np.uint8)).numpy()
    columns = {
        "area": np.arange(9) + 0.5,
        "photo": [{"bytes": image, "path": None}] * 9,
        "fixed": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(18.0)), 2),
        "alike": [[1, 2, 3]] * 9,
        "any": [[1] * at for at in range(9)],
        "word": ["x", "y", "z"] * 3,
        "hole": [None if at == 4 else at for at in range(9)],
        "no number": [float("nan") if at == 5 else 1.0 for at in range(9)],
        "when": pa.array([0] * 9, pa.timestamp("ms")),
        "raw": [b"\xff\x00"] * 9,
        "torn": [image[:40]] * 9,
        "label": np.arange(9) % 3,
    }
    return pa.table(columns | more)


def write(found: Any, path: Path) -> None:
    """Write a table as a Parquet or an Arrow file."""
    from pyarrow import feather
    from pyarrow import parquet as files

    if path.suffix == ".parquet":
        files.write_table(found, path)
    else:
        feather.write_feather(found, path)


def parquet(folder: Path) -> Path:
    """Write a folder of Parquet files."""
    (folder / "houses").mkdir()
    for part in range(3):
        write(table().slice(3 * part, 3), folder / "houses" / f"part-{part}.parquet")
    return folder / "houses"


def arrow(folder: Path) -> Path:
    """Write an Arrow file."""
    write(table(), folder / "houses.feather")
    return folder / "houses.feather"


def pairs(folder: Path, values: tuple[int, ...] = (0, 1, 2)) -> Path:
    """Write images with masks of some values."""
    generator = np.random.default_rng(0)
    for name in ("photos", "masks"):
        (folder / "pairs" / name).mkdir(parents=True)
    for at in range(8):
        image = generator.integers(0, 256, (12, 10, 3), np.uint8)
        mask = generator.choice(np.array(values, np.uint8), (12, 10, 1))
        (folder / f"pairs/photos/{at}.jpg").write_bytes(tf.io.encode_jpeg(image).numpy())
        (folder / f"pairs/masks/{at}.png").write_bytes(tf.io.encode_png(mask).numpy())
    return folder / "pairs"


def nameless(folder: Path) -> Path:
    """Write a table without a header, with the classes in front, and a mark that says that it is UTF-8."""
    path = folder / "digits.csv"
    rows = (f"{at % 3}," + ",".join(f"{at + each}" for each in range(12)) for at in range(24))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8-sig")
    return path


LEFT_OUT = [
    "# The column `photo.path` is left out: its cells are null, which is neither a number nor a text",
    "# The column `any` is left out: it has 0 to 8 values, for which `pad` is needed",
    "# The column `when` is left out: its cells are timestamp[ms], which is neither a number nor a text",
    "# The column `raw` is left out: its bytes are neither text nor a JPEG or PNG image",
    "# The column `torn` is left out: an image in it cannot be decoded: ",
]

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
    "parquet": (
        parquet,
        [
            'train = parquet("houses/*.parquet*"',
            'area = ["area"]',
            "photo_bytes = feature(uint8, [6, 5, 3]",
            'key = "photo.bytes"',
            'fixed = "fixed"',
            "alike = feature(int64, [3])",
            "word = input(string, [])",
            "houses/part-1.parquet`, row 1",
            "houses/part-1.parquet`, row 2",
            *LEFT_OUT,
        ],
    ),
    "arrow": (arrow, ['train = arrow("houses.feather"', "houses.feather`, row 5", *LEFT_OUT]),
    "pairs": (
        pairs,
        [
            'train = images("pairs/photos", [12, 10], masks = "pairs/masks")',
            "mask = input(int32, [12, 10, 1])",
            "logits = hidden -> Conv2D(3, 1)",
            "# `mask` is taken for the label because `masks` has a mask for each image",
        ],
    ),
    "pairs, two classes": (
        lambda folder: pairs(folder, (0, 255)),
        ["mask = input(float32, [12, 10, 1])", "-> scale(mask, ", "BinaryCrossentropy(from_logits = true)"],
    ),
    "pairs, void": (
        lambda folder: pairs(folder, (0, 1, 255)),
        ["SparseCategoricalCrossentropy(from_logits = true, ignore_class = 255)", "Conv2D(2, 1)"],
    ),
    "no header": (
        nameless,
        [
            "header = false",
            'numbers = ["column_[2-9]", "column_1[0-3]"]',
            "they are called column_1 to column_13",
            "# `column_1` is taken for the label because it is the first column",
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


def _torn(folder: Path) -> Path:
    write(table(), folder / "a.parquet")
    (folder / "a.parquet").write_bytes((folder / "a.parquet").read_bytes()[:-30])
    return folder / "a.parquet"


def _no_row(folder: Path) -> Path:
    write(table().slice(0, 0), folder / "a.parquet")
    return folder / "a.parquet"


def _unlike(folder: Path) -> Path:
    (folder / "parts").mkdir()
    write(table(), folder / "parts" / "a.parquet")
    write(table(label=["a"] * 9), folder / "parts" / "b.parquet")
    return folder / "parts"


def _no_mask(folder: Path) -> Path:
    (pairs(folder) / "masks" / "3.png").unlink()
    return folder / "pairs"


def _other_mask(folder: Path) -> Path:
    mask = tf.io.encode_png(np.zeros((12, 11, 1), np.uint8)).numpy()
    (pairs(folder) / "masks" / "3.png").write_bytes(mask)
    return folder / "pairs"


FAULTS: dict[str, tuple[Callable[[Path], Path], str]] = {
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
    "no table": (_file("a.parquet", "text"), "TFD702.*not a Parquet file"),
    "a torn table": (_torn, "TFD710.*cannot be read"),
    "no row in a table": (_no_row, "TFD703.*there is no row"),
    "tables that differ": (_unlike, "TFD709.*b.parquet.*`label` is not as in"),
    "no mask": (_no_mask, "TFD701.*3.jpg.*no mask of the same name"),
    "a mask of another size": (_other_mask, "TFD711.*3.png.*12 x 11 pixels"),
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


def _classifier(size: int) -> Any:
    x = keras.Input((size,), name="features")
    return keras.Model(x, layers.Dense(3, activation="softmax")(x))


def _segmenter() -> Any:
    x = keras.Input((16, 16, 3), name="photo")
    return keras.Model(x, layers.Conv2D(3, 1, activation="softmax")(x))


MODELS: dict[str, tuple[Callable[[Path], Path], Callable[[], Any], str]] = {
    "parquet": (parquet, lambda: _classifier(2), 'features = "fixed", label = "label"'),
    "arrow": (arrow, lambda: _classifier(2), 'features = "fixed", label = "label"'),
    "pairs": (pairs, _segmenter, '"pairs/photos", [16, 16], masks = "pairs/masks"'),
    "no header": (nameless, lambda: _classifier(12), 'features = ["column_[2-9]", "column_1[0-3]"]'),
}


@pytest.mark.parametrize(
    "kind", [each if each == "pairs" else pytest.param(each, marks=pytest.mark.full) for each in MODELS]
)
def test_a_model_trains_on_each_kind(command: Command, kind: str) -> None:
    """What `--from` and `--data` write together trains."""
    make, model, line = MODELS[kind]
    path, made = make(command.directory), model()
    made.compile("sgd", "sparse_categorical_crossentropy")
    made.save(command.directory / "model.keras")
    done = command("init", "--from", "model.keras", "--data", path.name)
    assert done.code == 0, done.err
    assert line in command.read("model.tfdeploy")
    done = command("compile-and-run", "model.tfdeploy", "--set", "clones.batch=4", "--set", "train.epochs=2")
    assert done.code == 0, done.err


def test_columns_and_masks_are_named(command: Command) -> None:
    """By options, which say what cannot be seen; those that do not fit are refused."""
    nameless(command.directory)
    (pairs(command.directory) / "masks").rename(command.directory / "other")
    names = ",".join(f"c{at}" for at in range(13))
    assert command("init", "--data", "digits.csv", "--columns", names).code == 0
    text = command.read("digits.tfdeploy")
    assert '"c0", "c1", "c2"' in " ".join(text.split())
    assert "header = [" in text
    assert command("check", "digits.tfdeploy").code == 0
    done = command("init", "--data", "digits.csv", "a.tfdeploy", "--columns", "a,b")
    assert "TFD709" in done.err
    assert "`header` names 2 columns, and the first row has 13 cells" in done.err
    assert command("init", "--data", "digits.csv", "b.tfdeploy", "--header").code == 2
    assert command("init", "--data", "pairs/photos", "c.tfdeploy", "--masks", "other").code == 0
    assert 'masks = "other"' in command.read("c.tfdeploy")
    assert command("init", "--no-header").code == 2


def test_from_keras_takes_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `init` does, named from the current folder."""
    from tfdeploy import from_keras

    monkeypatch.chdir(tmp_path)
    model = _classifier(2)
    model.compile("sgd", "sparse_categorical_crossentropy")
    assert 'arrow("houses.feather", features = "fixed", label = "label")' in from_keras(
        model, data=arrow(tmp_path).name
    )
