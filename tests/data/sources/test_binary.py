"""The sources of the original binary formats, cifar10 and mnist, on small files of those formats."""

import gzip
import struct
from typing import Any

import numpy as np
import pytest

CIFAR = {"image": ("uint8", (32, 32, 3)), "label": ("int32", ())}
MNIST = {"image": ("uint8", (4, 5, 1)), "label": ("int32", ())}
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, [30, 32, 32, 3], np.uint8)
DIGITS = RANDOM.integers(0, 256, [30, 4, 5, 1], np.uint8)
LABELS = RANDOM.integers(0, 10, [30], np.uint8)


def cifar(start: int, stop: int) -> bytes:
    """Return records as the binary version holds them: label, then the planes of red, green and blue."""
    planes = IMAGES.transpose(0, 3, 1, 2).reshape(30, -1)
    return np.concatenate([LABELS[:, None], planes], axis=1)[start:stop].tobytes()


def idx(array: np.ndarray) -> bytes:
    """Return an idx file of unsigned bytes."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def require_all(reader: Any, stream: Any, images: np.ndarray) -> None:
    """Check that a stream has these images with their labels, and no others."""
    stream.check()
    batches = reader.batches(stream, 8)
    assert stream.size == 30
    np.testing.assert_array_equal(np.concatenate([each["image"] for each in batches]), images)
    np.testing.assert_array_equal(np.concatenate([each["label"] for each in batches]), LABELS)


def test_cifar_files_are_read_in_natural_order(reader: Any) -> None:
    """The files of a glob give their records one after the other, colours as the last axis."""
    for number, (start, stop) in {1: (0, 12), 2: (12, 20), 10: (20, 30)}.items():
        (reader.base / f"data_batch_{number}.bin").write_bytes(cifar(start, stop))
    require_all(reader, reader.open(reader.call("cifar10", "data_batch_*.bin"), wanted=CIFAR), IMAGES)


def test_the_transforms_of_the_cifar_example(reader: Any) -> None:
    """Cast and scale bring pixels to -1..1, as the example spec does."""
    (reader.base / "data.bin").write_bytes(cifar(0, 30))
    stream = reader.open(
        reader.call("cifar10", "data.bin"),
        reader.call("shuffle", 1000),
        reader.call("cast", "image", "float32"),
        reader.call("scale", "image", 1 / 128, -1),
        wanted={"image": ("float32", (32, 32, 3)), "label": ("int32", ())},
        seed=2,
    )
    (batch,) = reader.batches(stream, 64)
    order = [int(np.argmin(np.abs(IMAGES / 128 - 1 - image).sum(axis=(1, 2, 3)))) for image in batch["image"]]
    assert sorted(order) == list(range(30))
    assert order != list(range(30))
    np.testing.assert_allclose(batch["image"], IMAGES[order] / 128.0 - 1, atol=1e-6)
    np.testing.assert_array_equal(batch["label"], LABELS[order])


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_files_are_read_packed_or_not(reader: Any, *, packed: bool) -> None:
    """Images and labels of idx files go together, in the size that the header gives."""
    pack = gzip.compress if packed else bytes
    (reader.base / "images").write_bytes(pack(idx(DIGITS[..., 0])))
    (reader.base / "labels").write_bytes(pack(idx(LABELS)))
    source = reader.call("mnist", images="images", labels="labels")
    require_all(reader, reader.open(source, wanted=MNIST), DIGITS)
