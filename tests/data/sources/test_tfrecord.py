"""The tfrecord source."""

import gzip
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.support import refusal_of
from tfdeploy.data.sources.tfrecord_file import RecordFile, crc32c, masked

WANTED = {"x": ("float32", (2, 2)), "y": ("int32", ())}


def example(**features: Any) -> bytes:
    """Serialize an example of lists of floats, whole numbers or bytes."""
    held = {}
    for name, values in features.items():
        kind = type(values[0]) if values else float
        held[name] = tf.train.Feature(
            float_list=tf.train.FloatList(value=values) if kind is float else None,
            int64_list=tf.train.Int64List(value=values) if kind is int else None,
            bytes_list=tf.train.BytesList(value=values) if kind is bytes else None,
        )
    return bytes(tf.train.Example(features=tf.train.Features(feature=held)).SerializeToString())


def good(number: int) -> bytes:
    """Serialize an example that fits."""
    return example(x=[float(number)] * 4, y=[number])


def record(data: bytes) -> bytes:
    """Frame a record as TFRecord files do."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(crc32c(length))) + data + struct.pack("<I", masked(crc32c(data)))


def source(reader: Any, path: str = "data.tfrecord", **more: Any) -> Any:
    """Return the source of x and y."""
    features = {"x": reader.call("feature", "float32", (2, 2)), "y": reader.call("feature", "int32")}
    return reader.call("tfrecord", path, **{**features, **more})


def test_framing_is_that_of_tensorflow(reader: Any) -> None:
    """Records framed here are byte for byte those that TensorFlow writes."""
    path = reader.base / "data.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(3):
            writer.write(good(number))
    assert path.read_bytes() == b"".join(record(good(number)) for number in range(3))


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_features_are_read_by_name_dtype_and_shape(reader: Any, compression: str) -> None:
    """Lists of floats and whole numbers become tensors of the shape and dtype that the spec gives."""
    packed = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[compression]
    for part, numbers in ((2, range(30, 50)), (1, range(30))):
        data = b"".join(record(good(each)) for each in numbers)
        (reader.base / f"part-{part}.tfrecord").write_bytes(packed(data))
    stream = reader.open(source(reader, "part-*.tfrecord", compression=compression), wanted=WANTED)
    stream.check()
    batches = reader.batches(stream, 16)
    assert stream.size == 50
    expected = np.repeat(np.arange(50, dtype=np.float32), 4).reshape(50, 2, 2)
    np.testing.assert_array_equal(np.concatenate([each["x"] for each in batches]), expected)
    np.testing.assert_array_equal(np.concatenate([each["y"] for each in batches]), np.arange(50))
    assert batches[0]["y"].dtype == np.int32


def test_a_length_that_begins_like_gzip_is_a_length(reader: Any) -> None:
    """A first record of 35,615 bytes begins with the two bytes of gzip, and is read as it is."""
    text = b"x" * (0x8B1F - 23)
    (reader.base / "data.tfrecord").write_bytes(record(example(t=[text])))
    assert (reader.base / "data.tfrecord").read_bytes().startswith(b"\x1f\x8b")
    stream = reader.open(
        reader.call("tfrecord", "data.tfrecord", t=reader.call("feature", "string")),
        wanted={"t": ("string", ())},
    )
    stream.check()
    (batch,) = reader.batches(stream, 1)
    assert batch["t"].tolist() == [text]


def test_encodings_of_bytes(reader: Any) -> None:
    """Bytes are read as raw numbers, as an image, or as text; a key is the name in the file."""
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20
    raw = np.array([1.5, -2], np.float64)
    png = tf.io.encode_png(pixels).numpy()
    data = example(**{"image/encoded": [png], "raw": [raw.tobytes()], "text": [b"abc"]})
    (reader.base / "data.tfrecord").write_bytes(record(data) * 3)
    feature = reader.call
    call = reader.call(
        "tfrecord",
        "data.tfrecord",
        image=feature("feature", "uint8", (2, 2, 3), key="image/encoded", encoding="image"),
        small=feature("feature", "uint8", (1, 1, 3), key="image/encoded", encoding="image"),
        raw=feature("feature", "float64", (2,), encoding="raw"),
        text=feature("feature", "string"),
    )
    assert refusal_of(lambda: reader.open(call, wanted={})).message == "`tfrecord` takes one feature twice"
    del call.kwargs["small"]
    wanted = {"image": ("uint8", (2, 2, 3)), "raw": ("float64", (2,)), "text": ("string", ())}
    stream = reader.open(call, reader.call("shuffle", 2), wanted=wanted)
    (batch,) = reader.batches(stream, 4)
    np.testing.assert_array_equal(batch["image"], [pixels] * 3)
    np.testing.assert_array_equal(batch["raw"], [raw] * 3)
    assert batch["text"].tolist() == [b"abc"] * 3


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_lengths_beyond_the_file_are_damage(reader: Any, compression: str) -> None:
    """A length that no file has is located, whatever its checksum says, in the first record and in others."""
    packed = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[compression]
    path, cut_off = reader.base / "data.tfrecord", "the file ends within it"
    for before in (0, 3):
        for length in (2**63, 2**64 - 1, 2**40, 2**63 - 1):
            written = struct.pack("<Q", length)
            for checksum, reason in (
                (masked(crc32c(written)), cut_off),
                (1, "the checksum of its length is wrong"),
            ):
                head = written + struct.pack("<I", checksum)
                path.write_bytes(packed(record(good(1)) * before + head + record(good(1))[12:]))
                found = reader.fault(source(reader, compression=compression), wanted=WANTED)
                message = f"`{path}`, record {before}: {reason}"
                assert (found.code, found.message) == ("TFD710", message)
                file = RecordFile(path, None, compression)
                fault = file.record(before)
                assert fault.message == message


def test_files_that_are_not_packed_as_the_spec_says(reader: Any) -> None:
    """A file that is not compressed, or whose compression is broken, is said."""
    plain = record(good(1)) * 3
    packed = {"none": plain, "gzip": gzip.compress(plain), "zlib": zlib.compress(plain)}
    cases = {
        (wanted, content): (
            "TFD702",
            f": the file is not compressed by {wanted}"
            if found == "none"
            else f": the file is compressed by {found}",
            "leave out `compression`" if found == "none" else f"write `compression = {found}`",
        )
        for wanted in packed
        for found, content in packed.items()
        if wanted != found
    }
    cases |= {
        ("gzip", b"no records"): ("TFD702", ": the file is not compressed by gzip", None),
        ("zlib", b"no records"): ("TFD702", ": the file is not compressed by zlib", None),
        ("gzip", gzip.compress(plain * 50)[:-30]): (
            "TFD710",
            ": unpacking it fails: compressed file ended before the end-of-stream marker was reached",
            None,
        ),
        ("zlib", zlib.compress(plain * 50)[:-30]): (
            "TFD710",
            ": unpacking it fails: the file ends before its contents do",
            None,
        ),
    }
    for (compression, content), (code, message, advice) in cases.items():
        (reader.base / "data.tfrecord").write_bytes(content)
        found = reader.fault(source(reader, compression=compression), wanted=WANTED)
        path = reader.base / "data.tfrecord"
        assert (found.code, found.message, found.help) == (code, f"`{path}`{message}", advice)
