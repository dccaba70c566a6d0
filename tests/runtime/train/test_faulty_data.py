"""What a run says of an example that it cannot use, wherever the example is: its file and its place there."""

from pathlib import Path

import numpy as np
import pytest

import tfdeploy
from dsl import ir
from dsl.diagnostics import Diagnostic
from tests.data.sources.test_images import jpeg
from tests.data.sources.test_tfrecord import example, record
from tests.runtime.conftest import Listener
from tests.support import refusal

SPEC = """
tfdeploy = 1
model "m" {
  x = input(float32, [SHAPE])
  label = input(int32, [])
  y = x -> Flatten() -> Dense(2)
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}
data { train = TRAIN }
devices { cpu = 2 }
clones { batch = 2 }
update { optimizer = SGD(0.0001) }
train { epochs = 2, seed = 1 }
"""


def load(spec: str, folder: Path, run: str = "run") -> ir.Spec:
    """Return a spec in a folder, with a run directory there; it may use Python beside it."""
    (folder / "s.tfdeploy").write_text(spec)
    return tfdeploy.load(folder / "s.tfdeploy", {"train.directory": str(folder / run)}, allow_python=True)


def fault_of(spec: str, folder: Path, told: Listener | None = None) -> Diagnostic:
    """Return how a run of a spec in a folder ends."""
    return refusal(tfdeploy.run, load(spec, folder), reporter=told or Listener())


def written_images(folder: Path, bad: int, data: bytes) -> Path:
    """Write twelve images of two classes, of which one is `data`; return the path of that one."""
    for number in range(12):
        path = folder / "pets" / "ab"[number // 6] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if number == bad else jpeg(number))
    return folder / "pets" / "ab"[bad // 6] / f"{bad}.jpg"


IMAGES = SPEC.replace("SHAPE", "4, 4, 3").replace(
    "TRAIN", 'images("pets", size = [4, 4]) -> rename(x = image) -> shuffle(12) -> CACHEcast(x, float32)'
)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("bad", [0, 7, 11])
@pytest.mark.parametrize("data", [b"", b"some text", b"\xff\xd8\xff and no more"])
def test_an_image_that_cannot_be_read(tmp_path: Path, bad: int, data: bytes) -> None:
    """First, in the middle or last, behind `shuffle` and `cache`: the file is named."""
    path = written_images(tmp_path, bad, data)
    spec = IMAGES.replace("CACHE", "cache() -> " if bad == 7 else "")
    found = fault_of(spec, tmp_path)
    reasons = {
        b"": "the file is empty",
        b"some text": "this is neither a JPEG nor a PNG file, whatever its name",
    }
    assert (found.code, found.message.partition(": ")[0]) == ("TFD713", f"`{path}`")
    assert found.message.endswith(reasons.get(data, "Invalid JPEG data, size 15"))


def altered(number: int) -> bytes:
    """Return a record with a byte that is not the one that was written."""
    data = bytearray(record(example(x=[float(number)] * 4, label=[number % 2])))
    data[20] ^= 0xFF
    return bytes(data)


@pytest.mark.parametrize("bad", [6, pytest.param(11, marks=pytest.mark.full)])
def test_a_record_whose_bytes_were_altered(tmp_path: Path, bad: int) -> None:
    """The record is named."""
    good = [record(example(x=[float(at)] * 4, label=[at % 2])) for at in range(12)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join([*good[:bad], altered(bad), *good[bad + 1 :]]))
    source = 'tfrecord("a.tfrecord", x = feature(float32, [4]), label = feature(int32))'
    found = fault_of(SPEC.replace("SHAPE", "4").replace("TRAIN", source), tmp_path)
    reason = f"record {bad}: the checksum of its bytes is wrong"
    assert (found.code, found.message) == ("TFD710", f"`{tmp_path / 'a.tfrecord'}`, {reason}")


def arrays(folder: Path, name: str, *, bad: int | None = None) -> None:
    """Write an archive of 24 examples, of which one has a number that is none in array `inputs`."""
    inputs = np.random.default_rng(0).random([24, 4], np.float32)
    if bad is not None:
        inputs[bad, 2] = np.nan
    np.savez(folder / name, inputs=inputs, label=np.arange(24, dtype=np.int32) % 2, spare=np.full(24, np.inf))


ARRAYS = SPEC.replace("SHAPE", "4").replace(
    "TRAIN", 'npz("train.npz", x = "inputs", label = "label") -> shuffle(24) -> scale(x, 2)'
)


@pytest.mark.parametrize("bad", [0, pytest.param(23, marks=pytest.mark.full)])
def test_a_number_of_an_archive_that_is_none(tmp_path: Path, bad: int) -> None:
    """The array and the example are named, and the loss that came of it; nothing is said of rates."""
    arrays(tmp_path, "train.npz", bad=bad)
    found = fault_of(ARRAYS, tmp_path)
    place = f"`{tmp_path / 'train.npz'}`, example {bad}, array `inputs`"
    assert (found.code, found.message) == ("TFD717", f"{place}: the number at [2] is nan")
    assert found.notes[0].startswith("the loss of step ")
    assert found.help == "give it a value, or leave this example out"


def test_a_number_that_a_transform_makes_infinite(tmp_path: Path) -> None:
    """The transform is named; numbers that have not been read by then are not searched."""
    rows = [f"{1e4 if at == 3 else 1},1,1,{70000 if at == 5 else 2},{at % 2}" for at in range(400)]
    (tmp_path / "train.csv").write_text("\n".join(["a,b,c,d,label", *rows]) + "\n")
    source = 'csv("train.csv", x = "[abcd]", label = "label") -> cast(x, float16) -> cast(x, float32)'
    found = fault_of(SPEC.replace("SHAPE", "4").replace("TRAIN", source), tmp_path)
    place = f"`{tmp_path / 'train.csv'}`, row 7"
    assert (found.code, found.message) == (
        "TFD717",
        f"{place}: `cast` makes `x` infinite: the number at [3] is inf",
    )


def test_the_rate_is_the_cause_if_the_data_are_finite(tmp_path: Path) -> None:
    """The advice is then about the rate, as it is for data whose bad number had not been read by then."""
    arrays(tmp_path, "train.npz")
    found = fault_of(ARRAYS.replace("SGD(0.0001)", "SGD(1e38)"), tmp_path)
    assert found.code == "TFD730"
    assert "learning rate" in found.help


BEST = 'steps = 8, evaluate_every = 2, best = lowest("loss"), patience = 2,'
JUDGED = ARRAYS.replace("epochs = 2,", BEST).replace(
    "data {", 'data { validation = npz("bad.npz", x = "inputs", label = "label")\n'
)


def test_a_run_in_which_no_evaluation_counted(tmp_path: Path) -> None:
    """The data are named once, and the end says that there is no best; what was trained is there."""
    arrays(tmp_path, "train.npz")
    arrays(tmp_path, "bad.npz", bad=7)
    place, told = f"`{tmp_path / 'bad.npz'}`, example 7, array `inputs`", Listener()
    found = fault_of(JUDGED, tmp_path, told)
    assert (found.code, found.message) == ("TFD718", "no evaluation on `validation` counted: `loss` is nan")
    assert found.span.text == 'lowest("loss")'
    assert (tmp_path / "run" / "model.keras").is_file()
    assert (tmp_path / "run" / "result.json").is_file()
    spec = load(JUDGED, tmp_path)
    evaluated = tfdeploy.evaluate(spec, warn=told.warnings.append)
    assert np.isnan(evaluated.splits["validation"].loss)
    tfdeploy.predict(spec, tmp_path / "bad.npz", tmp_path / "out.npz", warn=told.warnings.append)
    assert [(each.code, each.is_error, each.message.partition(": ")[0]) for each in told.warnings] == [
        ("TFD717", False, place)
    ] * 3
    assert [each.notes[0] for each in told.warnings] == [
        "`loss` is nan in the evaluation on `validation` after step 2",
        "`loss` is nan in the evaluation on `validation`",
        "predictions are not finite",
    ]


@pytest.mark.family(every=2)
@pytest.mark.parametrize("kind", ["weights", "masks"])
def test_an_evaluation_for_which_no_example_counts(tmp_path: Path, kind: str) -> None:
    """It is not the best, though its loss is 0; without `best` the run only warns of it."""
    inputs, label = np.ones([24, 4], np.float32), np.zeros(24, np.int32)
    for name, counts in (("train.npz", 1), ("bad.npz", 0)):
        weights = np.full(24, counts, np.float32)
        np.savez(tmp_path / name, inputs=inputs * weights[:, None], label=label, w=weights)
    spec = JUDGED
    if kind == "weights":
        spec = spec.replace('label = "label"', 'label = "label", w = "w"')
        spec = spec.replace("loss = [label, y] ->", "w = input(float32, [])\n  loss = [label, y, w] ->")
    else:
        spec = spec.replace("x -> Flatten() -> Dense(2)", "x -> Reshape([1, 4]) -> Masking() -> Dense(2)")
        spec = spec.replace("input(int32, [])", "input(int32, [1])").replace(
            '"label")', '"label") -> reshape(label, [1])'
        )
    told = Listener()
    assert fault_of(spec, tmp_path, told).message == (
        "no evaluation on `validation` counted: no example counts for `loss`"
    )
    loaded = load(spec.replace(BEST, "steps = 2,"), tmp_path, "other")
    assert tfdeploy.run(loaded, reporter=told).status == "finished"
    assert [each.message for each in told.warnings] == [
        "no example counts for `loss` in the evaluation on `validation` after step 2",
        "no example counts for `loss` in the evaluation on `validation` after step 2",
        "no evaluation on `validation` counted: no example counts for `loss`",
    ]


LOOKED_UP = """
tfdeploy = 1
model "m" {
  words = input(int32, [3])
  label = input(int32, [])
  place = input(int32, [])
  first = words[:, 0] -> Embedding(10, 2, name = "looked_up")
  other = place -> Embedding(100, 2)
  y = [first, other] -> Concatenate() -> Dense(2)
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}
data {
  train = npz("train.npz", words = "w", label = "k", place = "p") -> skip(2) -> shuffle(8)
  validation = npz("validation.npz", words = "w", label = "k", place = "p")
}
devices { cpu = 2 }
clones { batch = 2 }
update { optimizer = SGD(0.1) }
train { epochs = 1, seed = 1 }
"""


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("kind", "split", "mode"),
    [
        ("label", "train", "sync"),
        ("word", "validation", "sync"),
        ("label", "validation", "async"),
        ("word", "train", "async"),
    ],
)
def test_a_number_out_of_range(tmp_path: Path, kind: str, split: str, mode: str) -> None:
    """A label or a row of a table: the array and the example are named, and what takes no such number."""
    for name in ("train", "validation"):
        label, words = np.zeros(26, np.int32), np.zeros([26, 3], np.int32)
        if name == split:
            label[17], words[17] = (-1, [1, -1, -1]) if kind == "label" else (1, [10, 1, 1])
        np.savez(tmp_path / f"{name}.npz", w=words, k=label, p=np.full(26, 10, np.int32))
    found = fault_of(LOOKED_UP.replace("{ optimizer", f"{{ mode = {mode}, optimizer"), tmp_path)
    array, value, taken = ("k", -1, "0 to 1") if kind == "label" else ("w", 10, "0 to 9")
    place = f"`{tmp_path / split}.npz`, example 17, array `{array}`"
    assert (found.code, found.message) == ("TFD707", f"{place}: `{value}` is outside the range of {taken}")
    assert found.span.text.startswith("npz(")
    (label_of_layer,) = [each for each in found.labels if each.text == f"takes {taken}"]
    assert ("Sparse" in label_of_layer.span.text) is (kind == "label")
    assert ("Embedding" in label_of_layer.span.text) is (kind == "word")


CHECKED = """
import keras
import tensorflow as tf


class Checked(keras.layers.Layer):
    def call(self, x):
        return tf.debugging.check_numerics(x / (x - 100.0), "too large")


class Dropped(keras.layers.Layer):
    def call(self, x):
        tf.debugging.assert_less(x, 100.0, message="too large")
        return x


class InBranch(keras.layers.Layer):
    def call(self, x):
        def checked():
            with tf.control_dependencies([tf.debugging.assert_less(x, 100.0, message="too large")]):
                return tf.identity(x)

        return tf.cond(tf.reduce_any(x > 1.0), checked, lambda: x)


class InFunction(Dropped):
    call = tf.function(Dropped.call)


class InPython(keras.layers.Layer):
    def call(self, x):
        def checked(values):
            if (values >= 100.0).any():
                raise ValueError("too large")
            return values

        made = tf.numpy_function(checked, [x], tf.float32)
        made.set_shape(x.shape)
        return tf.stop_gradient(made)


def loss(target, prediction):
    tf.debugging.assert_less(tf.abs(prediction), 1e6, message="too large")
    return keras.losses.sparse_categorical_crossentropy(target, prediction, from_logits=True)
"""


@pytest.mark.parametrize("what", ["Checked", "Dropped", "InBranch", "InFunction", "InPython", "loss"])
def test_an_example_that_code_of_the_user_refuses(tmp_path: Path, what: str) -> None:
    """The example is named beside the code, wherever `shuffle` has put it and TensorFlow the check."""
    (tmp_path / "mine.py").write_text(CHECKED)
    x = np.zeros([12, 4], np.float32)
    x[7] = 100.0 if what != "loss" else 1e9
    np.savez(tmp_path / "train.npz", x=x, label=np.zeros(12, np.int32))
    own = f'python("mine:{what}")'
    replaced = "SparseCategoricalCrossentropy(from_logits = true)" if what == "loss" else "Flatten()"
    spec = SPEC.replace("SHAPE", "4").replace(replaced, own)
    found = fault_of(spec.replace("TRAIN", 'npz("train.npz") -> shuffle(8)'), tmp_path)
    assert (found.code, found.notes[0]) == ("TFD738", f"it fails with `{tmp_path / 'train.npz'}`, example 7")
    assert "too large" in found.message
    assert "function_node" not in found.message
    assert own in found.span.text
