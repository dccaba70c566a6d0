"""Files of every kind, damaged at random: each is read or ends in a located fault."""

import gzip
import io
import random
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import frozen

from dsl import ir
from dsl.diagnostics import RunError, SpecError

XY = {"x": ("float32", (2,)), "y": ("int64", ())}
IMAGE = {"image": ("uint8", (6, 6, 3)), "label": ("int32", ())}
X, Y = np.arange(60, dtype=np.float32).reshape(30, 2), np.arange(30)
TABLE = ("t,x1,x2,y\n" + "".join(f'"a ""{each}""",{each},{each}.5,{each}\n' for each in range(30))).encode()


@frozen
class Kind:
    """Whole files of a kind, the source that reads them, and what it is to give."""

    files: dict[str, bytes]
    call: ir.Call
    wanted: dict[str, Any]


def archive(save: Any) -> bytes:
    """Return an npz archive."""
    file = io.BytesIO()
    save(file, x=X, y=Y)
    return file.getvalue()


def records(folder: Path) -> bytes:
    """Return a TFRecord file, as TensorFlow writes it."""
    with tf.io.TFRecordWriter(str(folder / "written")) as writer:
        for x, y in zip(X, Y, strict=True):
            floats, number = tf.train.FloatList(value=x), tf.train.Int64List(value=[y])
            held = {"x": tf.train.Feature(float_list=floats), "y": tf.train.Feature(int64_list=number)}
            example = tf.train.Example(features=tf.train.Features(feature=held))
            writer.write(example.SerializeToString())
    return (folder / "written").read_bytes()


def tabled(kind: str) -> bytes:
    """Return a Parquet file, an Arrow file or a stream of Arrow."""
    arrow, file = import_module("pyarrow"), io.BytesIO()
    rows = arrow.table({"x": arrow.FixedSizeListArray.from_arrays(arrow.array(X.ravel()), 2), "y": Y})
    if kind == "parquet":
        import_module("pyarrow.parquet").write_table(rows, file)
        return file.getvalue()
    opened = arrow.ipc.new_file if kind == "arrow" else arrow.ipc.new_stream
    with opened(file, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=7)
    return file.getvalue()


def idx(array: np.ndarray) -> bytes:
    """Return an idx file."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def kinds(folder: Path) -> dict[str, Kind]:
    """Return one of each kind of file."""
    table = ir.Call("csv", ("f",), {"x": "x*", "y": "y"})
    features = {"x": ir.Call("feature", ("float32", (2,))), "y": ir.Call("feature", ("int64",))}
    written = records(folder)
    pixels = np.random.default_rng(0).integers(0, 256, [30, 6, 6, 3], np.uint8)
    idx_call = ir.Call("mnist", (), {"images": "i", "labels": "l"})
    pictures = {
        "p/a/1.png": tf.io.encode_png(pixels[0]).numpy(),
        "p/a/2.jpg": tf.io.encode_jpeg(pixels[1]).numpy(),
    }
    digits = {"i": idx(pixels[..., 0]), "l": idx(pixels[:, 0, 0, 0])}
    grey = {"image": ("uint8", (6, 6, 1)), "label": ("int32", ())}
    cifar = {"image": ("uint8", (32, 32, 3)), "label": ("int32", ())}
    return {
        "csv": Kind({"f": TABLE}, table, XY),
        "csv.gz": Kind({"f": gzip.compress(TABLE)}, table, XY),
        "npz": Kind({"f": archive(np.savez)}, ir.Call("npz", ("f",)), XY),
        "packed npz": Kind({"f": archive(np.savez_compressed)}, ir.Call("npz", ("f",)), XY),
        "tfrecord": Kind({"f": written}, ir.Call("tfrecord", ("f",), features), XY),
        "packed tfrecord": Kind(
            {"f": gzip.compress(written)},
            ir.Call("tfrecord", ("f",), {**features, "compression": "gzip"}),
            XY,
        ),
        "cifar10": Kind({"f": bytes(3073 * 4)}, ir.Call("cifar10", ("f",)), cifar),
        "mnist": Kind(digits, idx_call, grey),
        "packed mnist": Kind({name: gzip.compress(each) for name, each in digits.items()}, idx_call, grey),
        "parquet": Kind({"f": tabled("parquet")}, ir.Call("parquet", ("f",), {"x": "x", "y": "y"}), XY),
        "arrow": Kind({"f": tabled("arrow")}, ir.Call("arrow", ("f",), {"x": "x", "y": "y"}), XY),
        "arrow stream": Kind({"f": tabled("stream")}, ir.Call("arrow", ("f",), {"x": "x", "y": "y"}), XY),
        "images": Kind(pictures, ir.Call("images", ("p", (6, 6))), IMAGE),
    }


def damaged(data: bytes, choice: random.Random) -> bytes:
    """Cut `data` off, lengthen it, take some bytes out, or write over some."""
    how = choice.random()
    at = choice.randrange(len(data))
    if how < 0.2:
        return data[:at]
    if how < 0.3:
        return data + choice.randbytes(9)
    if how < 0.4:
        return data[:at] + data[at + choice.randrange(1, 9) :]
    changed = bytearray(data)
    for _ in range(choice.choice([1, 1, 10])):
        changed[choice.randrange(len(data))] = choice.randrange(256)
    return bytes(changed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
def test_no_damage_ends_in_anything_but_a_fault(reader: Any, seed: int) -> None:
    """A damaged file gives all the examples it claims to have, or a diagnostic of its own."""
    choice = random.Random(seed)  # noqa: S311 the same damage every time
    for name, kind in kinds(reader.base).items():
        target = choice.choice(list(kind.files))
        for file, data in kind.files.items():
            path = reader.base / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(damaged(data, choice) if file == target else data)
        try:
            stream = reader.open(kind.call, wanted=kind.wanted)
            stream.check()
            batches = reader.batches(stream, 7)
        except (RunError, SpecError):
            continue
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            explained = stream.explain(error)
        else:
            assert sum(len(next(iter(each.values()))) for each in batches) == stream.size, name
            continue
        assert explained is not None, name
        assert explained.diagnostic.code != "TFD715", (name, explained)
