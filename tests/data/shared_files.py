"""The same thirty examples as files of every source, each example telling its number."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import frozen

from tests.data.conftest import unoptimised
from tests.data.sources.test_binary import idx
from tests.data.sources.test_images import png
from tests.data.sources.test_tfrecord import example, record

COUNT, FILES = 30, 6
Fields = dict[str, tuple[str, tuple[int, ...]]]


@frozen
class Kind:
    """A source: how its files are written, its call, and the tensor of which the first number tells all."""

    name: str
    write: Callable[[Path], object]
    call: Callable[[Any], Any]
    wanted: Fields

    def opened(self, reader: Any, *transforms: Any, **options: Any) -> Any:
        """Open the files, which `write` has written into the reader's folder."""
        return reader.open(self.call(reader), *transforms, wanted=self.wanted, **options)

    def numbers(self, batch: dict[str, np.ndarray]) -> list[float]:
        """Return what tells the examples of a batch apart."""
        values = batch[next(iter(self.wanted))]
        return [float(value) for value in values.reshape(len(values), -1)[:, 0]]


def _parts() -> list[range]:
    size = COUNT // FILES
    return [range(start, start + size) for start in range(0, COUNT, size)]


def _csv(folder: Path) -> None:
    for at, part in enumerate(_parts()):
        (folder / f"n-{at}.csv").write_text("n\n" + "".join(f"{each}\n" for each in part))


def _tfrecord(folder: Path) -> None:
    for at, part in enumerate(_parts()):
        (folder / f"n-{at}.tfrecord").write_bytes(b"".join(record(example(n=[each])) for each in part))


def _cifar10(folder: Path) -> None:
    for at, part in enumerate(_parts()):
        (folder / f"n-{at}.bin").write_bytes(b"".join(bytes([0]) + bytes([each] * 3072) for each in part))


def _images(folder: Path) -> None:
    for each in range(COUNT):
        path = folder / "pictures" / f"{each % 2}" / f"{each}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(each, 2, 2))


def _npz(folder: Path) -> None:
    np.savez(folder / "n.npz", n=np.arange(COUNT, dtype=np.int32))


def _mnist(folder: Path) -> None:
    images = np.arange(COUNT, dtype=np.uint8).reshape(COUNT, 1, 1)
    (folder / "images").write_bytes(idx(images))
    (folder / "labels").write_bytes(idx(images.reshape(COUNT)))


NUMBER: Fields = {"n": ("int32", ())}
KINDS = (
    Kind("csv", _csv, lambda reader: reader.call("csv", "n-*.csv", n="n"), NUMBER),
    Kind(
        "tfrecord",
        _tfrecord,
        lambda reader: reader.call("tfrecord", "n-*.tfrecord", n=reader.call("feature", "int32")),
        NUMBER,
    ),
    Kind(
        "cifar10",
        _cifar10,
        lambda reader: reader.call("cifar10", "n-*.bin"),
        {"image": ("uint8", (32, 32, 3))},
    ),
    Kind(
        "images",
        _images,
        lambda reader: reader.call("images", "pictures", size=(2, 2)),
        {"image": ("uint8", (2, 2, 3))},
    ),
    Kind("npz", _npz, lambda reader: reader.call("npz", "n.npz"), NUMBER),
    Kind(
        "mnist",
        _mnist,
        lambda reader: reader.call("mnist", images="images", labels="labels"),
        {"image": ("uint8", (1, 1, 1))},
    ),
    Kind(
        "synthetic",
        lambda _: None,
        lambda reader: reader.call("synthetic", COUNT, x=reader.call("feature", "float32")),
        {"x": ("float32", ())},
    ),
)
"""Every source that TensorFlow reads by itself."""

ORDERS: tuple[tuple[tuple[Any, ...], ...], ...] = (
    (("shuffle", 7), ("cache",)),
    (("skip", 3), ("take", 20), ("shuffle", 7)),
    (("shuffle", 30), ("take", 22), ("cache",), ("shuffle", 5)),
)
"""Transforms that choose and order examples, as calls."""


def two_passes(streams: list[Any]) -> list[list[dict[str, np.ndarray]]]:
    """Return two passes of each stream, each pass as one batch."""
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        iterators = [
            tf.compat.v1.data.make_initializable_iterator(
                each.batches(each.size, repeat=True, drop_remainder=True)
            )
            for each in streams
        ]
        following = [each.get_next() for each in iterators]
        with tf.compat.v1.Session(config=unoptimised()) as session:
            session.run([each.initializer for each in iterators])
            first, second = session.run(following), session.run(following)
    return [list(each) for each in zip(first, second, strict=True)]
