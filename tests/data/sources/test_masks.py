"""Images with masks: `images("photos", size = [...], masks = "masks")`, on files made here."""

import struct
import zlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.data.sources.test_images import jpeg, png, write
from tests.support import refusal_of

HEIGHT, WIDTH = 6, 8
WANTED = {"image": ("uint8", (HEIGHT, WIDTH, 3)), "mask": ("uint8", (HEIGHT, WIDTH, 1))}
GREY, COLOURS, PALETTE = 0, 2, 3


def mask(numbers: np.ndarray, bits: int = 8, kind: int = GREY) -> bytes:
    """Return a PNG file of numbers, with a list of other colours if it has a palette."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    height, width = numbers.shape
    rows = np.unpackbits(numbers.astype(np.uint8)[..., None], axis=-1)[..., 8 - bits :].reshape(height, -1)
    data = b"".join(b"\0" + np.packbits(each).tobytes() for each in rows)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))]
    if kind == PALETTE:
        colours = bytes(each * 37 % 256 for each in range(3 << bits))
        parts += [(b"PLTE", colours), (b"tRNS", bytes(1 << bits))]
    parts += [(b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in parts)


def numbers(seed: int = 0, height: int = HEIGHT, width: int = WIDTH, most: int = 256) -> np.ndarray:
    """Return numbers at random."""
    return np.random.default_rng(seed).integers(0, most, [height, width])


def pairs(reader: Any, **more: Any) -> Any:
    """Return the call that reads the pairs."""
    return reader.call("images", "photos", size=(HEIGHT, WIDTH), **{"masks": "masks", **more})


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    ("bits", "kind"), [(8, GREY), (8, PALETTE), (4, PALETTE), (2, PALETTE), (1, PALETTE)]
)
def test_masks_are_the_numbers_in_their_files(reader: Any, bits: int, kind: int) -> None:
    """Also those of files with a palette, whose colours do not matter; pairs are found by name."""
    found = [numbers(seed, most=1 << bits) for seed in range(3)]
    write(reader.base, masks_10_png=mask(found[2], bits, kind), masks_9_png=mask(found[1], bits, kind))
    write(reader.base / "masks", a_1_PNG=mask(found[0], bits, kind))
    write(reader.base, photos_9_jpg=jpeg(90), photos_10_png=png(100, HEIGHT, WIDTH))
    write(reader.base / "photos", a_1_png=png(10, HEIGHT, WIDTH))
    (reader.base / "photos" / "9.jpg").write_bytes(
        tf.io.encode_jpeg(np.full([HEIGHT, WIDTH, 3], 90, np.uint8), quality=100).numpy()
    )
    stream = reader.open(pairs(reader), wanted=WANTED)
    stream.check()
    (batch,) = reader.batches(stream, 4)
    order = [round(float(each.mean())) // 10 for each in batch["image"]]
    assert order == [9, 10, 1]
    np.testing.assert_array_equal(batch["mask"][..., 0], [found[1], found[2], found[0]])


def test_masks_are_resized_to_the_nearest_number(reader: Any) -> None:
    """And cut like their images."""
    large = numbers(1, 3 * HEIGHT, 5 * WIDTH)
    image = np.repeat(large[..., None], 3, axis=2).astype(np.uint8)
    write(reader.base, masks_1_png=mask(large), photos_1_png=tf.io.encode_png(image).numpy())
    for resize, part in (("bilinear", large), ("crop", large[:, WIDTH : 4 * WIDTH])):
        (batch,) = reader.batches(reader.open(pairs(reader, resize=resize), wanted=WANTED), 1)
        expected = part[1::3, part.shape[1] // WIDTH // 2 :: part.shape[1] // WIDTH]
        np.testing.assert_array_equal(batch["mask"][0, ..., 0], expected)


def test_an_image_and_its_mask_are_changed_alike(reader: Any) -> None:
    """A crop and a flip of both take the same place and direction; colours change the image alone."""
    found = [numbers(seed, most=200) for seed in range(12)]
    for at, each in enumerate(found):
        image = np.repeat(each[..., None], 3, axis=2).astype(np.uint8)
        write(
            reader.base,
            **{f"masks_{at}_png": mask(each), f"photos_{at}_png": tf.io.encode_png(image).numpy()},
        )
    both = ("image", "mask")
    calls = [
        reader.call("random_crop", both, (4, 5), 1),
        reader.call("random_flip", both, "both"),
        reader.call("cast", "image", "float32"),
    ]
    wanted = {"image": ("float32", (4, 5, 3)), "mask": ("uint8", (4, 5, 1))}
    stream = reader.open(pairs(reader), *calls, wanted=wanted, seed=1)
    (batch,) = reader.batches(stream, 12)
    np.testing.assert_array_equal(batch["image"][..., :1], batch["mask"])
    first = [each[:4, :5] for each in found]
    assert sum(np.array_equal(*each) for each in zip(batch["mask"][..., 0], first, strict=True)) < 6
    middle = reader.open(
        pairs(reader), reader.call("center_crop", both, (4, 4)), wanted={"mask": ("uint8", (4, 4, 1))}
    )
    np.testing.assert_array_equal(reader.batches(middle, 1)[0]["mask"][0, ..., 0], found[0][1:5, 2:6])


def test_images_with_masks_have_no_classes(reader: Any) -> None:
    """It is their pixels that have."""
    write(reader.base, masks_1_png=mask(numbers()), photos_1_png=png(1, HEIGHT, WIDTH))
    found = refusal_of(lambda: reader.open(pairs(reader, classes=("a",)), wanted=WANTED))
    assert found.message == "`images` has no classes of images if it has `masks`"


def test_images_of_different_sizes_are_not_changed_alike(reader: Any) -> None:
    """No place in one is a place in the other."""
    arrays = {"a": np.zeros([2, 6, 6, 3], np.uint8), "b": np.zeros([2, 5, 6, 1], np.uint8)}
    np.savez(reader.base / "f.npz", **arrays)
    flip = reader.call("random_flip", ("a", "b"))
    wanted = {"a": ("uint8", (6, 6, 3))}
    found = refusal_of(lambda: reader.open(reader.call("npz", "f.npz"), flip, wanted=wanted))
    assert "`a` uint8[6, 6, 3], `b` uint8[5, 6, 1] are not of the same" in found.message
