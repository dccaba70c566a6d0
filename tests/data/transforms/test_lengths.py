"""Examples of different lengths: `pad` and `bucket`, from every source that gives them."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

from dsl import ir
from tests.data.conftest import Reader, make_call
from tests.data.sources.test_tfrecord import example, record
from tfdeploy.data import Field, Stream, _longest

LENGTHS = (5, 1, 12, 3, 7, 2, 9, 4, 11, 6)
WANTED: dict[str, Any] = {"tokens": ("int32", (None,)), "label": ("int32", ())}


def tokens(number: int, length: int) -> list[int]:
    """Return the tokens of an example, which tell its number and place."""
    return [100 * (number + 1) + place for place in range(length)]


def write_records(reader: Reader, lengths: Sequence[int] = LENGTHS, name: str = "t.tfrecord") -> None:
    """Write a TFRecord file with an example of each length, whose label is its number."""
    with tf.io.TFRecordWriter(str(reader.base / name)) as writer:
        for number, length in enumerate(lengths):
            features = {"tokens": tokens(number, length), "label": [number]}
            features["pairs"] = [value for each in features["tokens"] for value in (each, -each)]
            made = {
                key: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
                for key, value in features.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=made))
            writer.write(example.SerializeToString())


def records(reader: Reader, **more: ir.Call) -> ir.Call:
    """Return the source that reads the file."""
    feature = reader.call("feature", "int32", (None,))
    return reader.call(
        "tfrecord", "*.tfrecord", tokens=feature, label=reader.call("feature", "int32"), **more
    )


def rows(batches: Sequence[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    """Return label and tokens without padding of each example, batch after batch."""
    return [
        (int(label), [int(each) for each in row if each])
        for batch in batches
        for label, row in zip(batch["label"], batch["tokens"], strict=True)
    ]


def widths(batches: Sequence[dict[str, Any]]) -> list[int]:
    """Return the size of each batch along the axis that is filled."""
    return [batch["tokens"].shape[1] for batch in batches]


EXPECTED = [(number, tokens(number, length)) for number, length in enumerate(LENGTHS)]


@pytest.mark.parametrize(
    ("to", "wide"),
    [
        (None, [12, 9, 11]),
        (make_call("multiple_of", (4,), {}), [12, 12, 12]),
        (15, [15, 15, 15]),
    ],
)
def test_batches_have_the_size_that_is_asked_for(reader: Reader, to: Any, wide: list[int]) -> None:
    """A batch is as long as its longest example, a multiple, or a number; every value is in its place."""
    write_records(reader)
    pad = reader.call("pad", "tokens", to=to)
    found = reader.batches(reader.open(records(reader), pad, wanted=WANTED), 4)
    assert widths(found) == wide
    assert rows(found) == EXPECTED
    assert all(batch["tokens"].dtype == np.int32 for batch in found)


def test_changes_before_and_after_padding(reader: Reader) -> None:
    """Several columns are padded at once, one with vectors; other changes may come before and after it."""
    write_records(reader)
    pairs = reader.call("feature", "int32", (None, 2))
    wanted = {"words": ("int64", (None,)), "pairs": ("float32", (None, 2)), "label": ("int32", ())}
    stream = reader.open(
        records(reader, pairs=pairs),
        reader.call("cast", "pairs", "float32"),
        reader.call("scale", "pairs", 0.5),
        reader.call("rename", words="tokens"),
        reader.call("pad", ("words", "pairs"), value=-1),
        reader.call("cast", "words", "int64"),
        wanted=wanted,
    )
    first = reader.batches(stream, 2)[0]
    assert first["words"].tolist() == [tokens(0, 5), [200, -1, -1, -1, -1]]
    expected = [[each / 2, -each / 2] for each in tokens(0, 5)]
    assert first["pairs"].tolist() == [expected, [[100, -100], *[[-1, -1]] * 4]]


def test_padding_to_a_fixed_size_gives_static_shapes(reader: Reader) -> None:
    """A model with a fixed shape takes examples of different lengths; `truncate` cuts longer ones off."""
    write_records(reader)
    wanted = {"tokens": ("int32", (6,)), "label": ("int32", ())}
    pad = reader.call("pad", "tokens", to=6, truncate=True)
    stream = reader.open(records(reader), pad, reader.call("cache"), wanted=wanted)
    found = rows(reader.batches(stream, 4))
    assert found == [(number, each[:6]) for number, each in EXPECTED]


def test_other_sources(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV cells with values between spaces, generators and datasets of Python give the same examples."""
    lines = [f"{' '.join(map(str, each))},{number}" for number, each in EXPECTED]
    (reader.base / "t.csv").write_text("\n".join(["tokens,label", *lines]) + "\n")
    (reader.base / "lengths_of_python.py").write_text(
        "import numpy as np, tensorflow as tf\n"
        f"EXAMPLES = {EXPECTED}\n"
        "class Given(list):\n    pass\n"
        "def listed():\n"
        "    return [{'tokens': np.array(t, np.int32), 'label': np.int32(n)} for n, t in EXAMPLES]\n"
        "def dataset():\n"
        "    signature = {'tokens': tf.TensorSpec([None], tf.int32), 'label': tf.TensorSpec([], tf.int32)}\n"
        "    return tf.data.Dataset.from_generator(listed, output_signature=signature)\n"
    )
    monkeypatch.setattr(sys, "path", [str(reader.base), *sys.path])
    pad = reader.call("pad", "tokens")
    sources = [
        reader.call("csv", "t.csv", tokens="tokens", label="label"),
        reader.call("python", "lengths_of_python:listed"),
        reader.call("python", "lengths_of_python:dataset"),
    ]
    for source in sources:
        found = reader.batches(reader.open(source, pad, wanted=WANTED), 4)
        assert widths(found) == [12, 9, 11], source
        assert rows(found) == EXPECTED, source


def test_a_cell_that_is_no_number_is_named(reader: Reader) -> None:
    """The message about a value among several in a cell has its row and column."""
    (reader.base / "t.csv").write_text("tokens,label\n1 2,0\n3 x 5,1\n")
    source = reader.call("csv", "t.csv", tokens="tokens", label="label")
    fault = reader.fault(source, reader.call("pad", "tokens"), wanted=WANTED)
    assert fault.code == "TFD706"
    assert "row 3, column `tokens`: `x` is not a whole number" in fault.message


@pytest.mark.family(every=2)
@pytest.mark.parametrize("cached", [True, False])
def test_buckets_fill_batches_with_one_group(reader: Reader, cached: bool) -> None:
    """Batches are of one group but for the ends of passes, and every pass has each example once."""
    lengths = [1 + (7 * number) % 12 for number in range(42)]
    write_records(reader, lengths)
    steps = [reader.call("cache")] if cached else []
    stream = reader.open(
        records(reader),
        *steps,
        reader.call("shuffle", 42),
        reader.call("rename", words="tokens"),
        reader.call("bucket", "words", (4, 8)),
        reader.call("rename", tokens="words"),
        reader.call("pad", "tokens", to=reader.call("multiple_of", 4)),
        wanted=WANTED,
        seed=3,
    )
    found = reader.batches(stream, 4, repeat=True, most=42)
    order = rows(found)
    passes = [order[at : at + 42] for at in range(0, 4 * 42, 42)]
    expected = sorted((number, tokens(number, length)) for number, length in enumerate(lengths))
    assert [sorted(each) for each in passes] == [expected] * 4
    assert len({tuple(number for number, _ in each) for each in passes}) == 4
    pure = [len({(len(each) - 1) // 4 for _, each in order[at : at + 4]}) == 1 for at in range(0, 168, 4)]
    assert sum(not each for each in pure) <= 4 * 3  # at the end of a pass, at most one for each group
    assert all(pure[:8])
    _resumes(reader, stream, found)


def _resumes(reader: Reader, stream: Stream, found: Sequence[dict[str, Any]]) -> None:
    """Check that a stream that skips what was consumed goes on where it was."""
    for batches in (5, 13):
        options = evolve(stream.options, skip_examples=4 * batches)
        resumed = evolve(stream, options=options)
        again = reader.batches(resumed, 4, repeat=True, most=6)
        assert rows(again) == rows(found[batches : batches + 6])


@pytest.mark.full
def test_images_beside_texts(reader: Reader) -> None:
    """Records that are decoded one by one, and changed at random, are filled up in batches as others are."""
    with tf.io.TFRecordWriter(str(reader.base / "t.tfrecord")) as writer:
        for number, length in enumerate(LENGTHS):
            png = tf.io.encode_png(np.full((2, 2, 1), number, np.uint8)).numpy()
            features = {
                "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=tokens(number, length))),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[png])),
            }
            made = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(made.SerializeToString())
    image = reader.call("feature", "uint8", (2, 2, 1), encoding="image")
    wanted = {**WANTED, "image": ("float32", (2, 2, 1))}
    steps = [
        reader.call("bucket", "tokens", (6,)),
        reader.call("random_flip", "image"),
        reader.call("cast", "image", "float32"),
    ]
    pad = reader.call("pad", "tokens")
    for mixed in (
        [],
        [reader.call("cast", "label", "float32"), reader.call("mixup", "image", "label", 1e-3)],
    ):
        kept = {**wanted, "label": ("float32", ())} if mixed else wanted
        source = records(reader, image=image)
        stream = reader.open(source, *steps, *mixed, pad, wanted=kept, seed=1)
        batches = reader.batches(stream, 2)
        found = [int(row[0]) // 100 - 1 for batch in batches for row in batch["tokens"]]
        assert sorted(found) == list(range(len(LENGTHS)))
        assert widths(batches) == [
            max(LENGTHS[number] for number in found[at : at + 2]) for at in range(0, len(LENGTHS), 2)
        ]
        if not mixed:
            assert [int(each[0, 0, 0]) for batch in batches for each in batch["image"]] == found


def test_the_longest_is_that_of_the_first_axis() -> None:
    """It is the size that an input has or is assumed to have; an input without axes has none."""
    fields = [
        Field("fixed", "int32", (3, 4)),
        Field("free", "int32", (None, 5), assumed=(7,)),
        Field("both", "int32", (None, None), assumed=(8, 9)),
        Field("second", "int32", (2, None), assumed=(6,)),
        Field("single", "int32", ()),
    ]
    assert _longest([], fields) == {"fixed": 3, "free": 7, "both": 8, "second": 2}


def test_a_record_without_the_list_has_an_empty_one(reader: Reader) -> None:
    """The first as any other, whether the feature is missing or of no kind; a name in no record is told."""
    kindless = tf.train.Example()
    kindless.features.feature["tokens"].SetInParent()
    kindless.features.feature["label"].int64_list.value.append(1)
    lists = [[], None, [7, 8], [], [9]]
    written = [
        kindless.SerializeToString()
        if each is None
        else example(**({"tokens": each} if each else {}), label=[at])
        for at, each in enumerate(lists)
    ]
    pad = reader.call("pad", "tokens")
    for start in range(3):
        (reader.base / "t.tfrecord").write_bytes(b"".join(record(each) for each in written[start:]))
        stream = reader.open(records(reader), pad, wanted=WANTED)
        stream.check()
        expected = [(at, each or []) for at, each in enumerate(lists)][start:]
        assert rows(reader.batches(stream, 2)) == expected
    (reader.base / "t.tfrecord").write_bytes(record(written[0]) * 3 + record(example(token=[1], label=[2])))
    found = reader.fault(records(reader), pad, wanted=WANTED)
    path = reader.base / "t.tfrecord"
    assert (found.code, found.message) == ("TFD704", f"`{path}`: there is no feature `tokens`")
    floats = example(tokens=[1.5], label=[2])
    (reader.base / "t.tfrecord").write_bytes(record(written[0]) * 3 + record(floats))
    wrong = reader.fault(records(reader), pad, wanted=WANTED)
    assert wrong.message == f"`{path}`, record 3, feature `tokens`: holds floats, not whole numbers"
