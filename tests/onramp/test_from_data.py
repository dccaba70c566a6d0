"""`init --data`: specs from files of examples, which read and train on what the files hold."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import grammar
from dsl import ir
from dsl.diagnostics import RunError
from dsl.formats.render import human
from tests.cli.conftest import Command
from tests.support import refusal
from tfdeploy import compile as compile_spec
from tfdeploy import from_keras, load
from tfdeploy.onramp.examples import first_spec, fitted
from tfdeploy.onramp.looking import look

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


def test_a_table_becomes_a_spec_that_trains(command: Command) -> None:
    """Which is not replaced."""
    flowers(command.directory)
    assert command("init", "--data", "flowers.csv").code == 0
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


KINDS: dict[str, Callable[[Path], Path]] = {
    "table": flowers,
    "npz": arrays,
    "tfrecord": records,
    "parquet": parquet,
    "arrow": arrow,
    "pairs": pairs,
    "pairs_of_two_classes": lambda folder: pairs(folder, (0, 255)),
    "pairs_with_void": lambda folder: pairs(folder, (0, 1, 255)),
    "no_header": nameless,
    "images": images,
}


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=pytest.mark.full if each == "arrow" else ()) for each in KINDS]
)
def test_files_of_each_kind_are_looked_at(
    tmp_path: Path, kind: str, golden: Callable[[str, str], None]
) -> None:
    """What they hold becomes inputs; the spec has no fault and reads its examples."""
    text = first_spec(look(KINDS[kind](tmp_path)), "first", tmp_path)
    shown = re.sub(r"(?<=cannot be decoded: ).*", "...", text).replace(f"{tmp_path}/", "")
    golden(f"onramp/{kind}.tfdeploy", shown)
    spec = tmp_path / "first.tfdeploy"
    spec.write_text(text)
    assert list(grammar.read(spec).diagnostics) == []
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


FAULTS: dict[str, Callable[[Path], Path]] = {
    "empty": _file("a.csv", ""),
    "no rows": _file("a.csv", "a,b\n"),
    "a short row": _file("a.csv", "a,b\n1,2\n1\n"),
    "an open quote": _file("a.csv", 'a,b\n"1,2\n'),
    "semicolons": _file("a.csv", "1;2\n3;4\n"),
    "a name twice": _file("a.csv", "a,a\n1,2\n"),
    "nothing to read": _file("a.csv", "id\nx\ny\n"),
    "no archive": _file("a.npz", "text"),
    "arrays of other lengths": _unequal,
    "no records": _file("a.tfrecord", b"text"),
    "no table": _file("a.parquet", "text"),
    "a torn table": _torn,
    "no row in a table": _no_row,
    "tables that differ": _unlike,
    "no mask": _no_mask,
    "a mask of another size": _other_mask,
    "another kind": _file("a.txt", "text"),
    "no image": lambda folder: _file("pets/cat/1.jpg", "text")(_made(folder)).parent.parent,
    "a folder of nothing": lambda folder: folder,
    "nothing": lambda folder: folder / "a.csv",
}


def _made(folder: Path) -> Path:
    (folder / "pets").mkdir()
    return folder


def test_what_cannot_be_read_is_said_with_its_place(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    """By the messages of the sources, and TFD792 for what only `init` needs."""
    told = []
    for fault, make in FAULTS.items():
        folder = tmp_path / fault
        folder.mkdir()
        said = "".join(human([refusal(look, make(folder))]))
        said = said.replace(f"{folder}/", "").replace(str(folder), "FOLDER")
        told.append(f"=== {fault}\n{re.sub('(?<=cannot be read: ).*', '...', said)}")
    golden("onramp/faults.txt", "\n".join(told))


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


def test_from_keras_takes_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `init` does, named from the current folder."""
    monkeypatch.chdir(tmp_path)
    model = _classifier(2)
    model.compile("sgd", "sparse_categorical_crossentropy")
    assert 'arrow("houses.feather", features = "fixed", label = "label")' in from_keras(
        model, data=arrow(tmp_path).name
    )
