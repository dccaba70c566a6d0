"""The images source, on small images made here."""

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.data.sources.test_tfrecord import example
from tests.data.sources.test_tfrecord import record as framed
from tests.support import refusal_of
from tfdeploy.data.sources.pixels import decode_image

WANTED = {"image": ("uint8", (4, 6, 3)), "label": ("int32", ())}


@cache
def png(value: int, height: int = 4, width: int = 6, channels: int = 3) -> bytes:
    """Encode an image of one value."""
    return bytes(tf.io.encode_png(np.full([height, width, channels], value, np.uint8)).numpy())


@cache
def jpeg(value: int) -> bytes:
    """Encode a grey image of one value."""
    return bytes(tf.io.encode_jpeg(np.full([16, 24, 3], value, np.uint8), quality=100).numpy())


def write(folder: Path, **files: bytes) -> None:
    """Write files whose names begin with the class or another folder, as in cat_1_png."""
    for name, data in files.items():
        kind, number, suffix = name.split("_")
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / kind / f"{number}.{suffix}").write_bytes(data)


def opened(reader: Any, *transforms: Any, wanted: Any = None, **more: Any) -> Any:
    """Open the folder `pictures`, resized to 4 x 6."""
    return reader.open(
        reader.call("images", "pictures", size=(4, 6), **more), *transforms, wanted=wanted or WANTED
    )


def test_classes_are_folders_in_natural_order(reader: Any) -> None:
    """Labels number the folders, files come by name, hidden files and notes are no images."""
    folder = reader.base / "pictures"
    write(folder, c10_1_png=png(40), c9_10_PNG=png(30), c9_2_png=png(20), c9_1_jpg=jpeg(10))
    (folder / "c9" / ".hidden.png").write_bytes(b"")
    (folder / "c9" / "notes.txt").write_text("no image")
    (folder / ".cache").mkdir()
    stream = opened(reader)
    stream.check()
    (batch,) = reader.batches(stream, 8)
    assert stream.size == 4
    assert batch["label"].tolist() == [0, 0, 0, 1]
    assert batch["image"].shape == (4, 4, 6, 3)
    assert batch["image"][1:, 0, 0, 0].tolist() == [20, 30, 40]
    assert abs(int(batch["image"][0].mean()) - 10) <= 1


def test_named_classes_decide_the_labels(reader: Any) -> None:
    """`classes` gives the order of the labels."""
    write(reader.base / "pictures", ant_1_png=png(1), bee_1_png=png(2))
    assert reader.column(opened(reader, classes=("bee", "ant")), "label") == [0, 1]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_are_resized_and_recoloured(reader: Any, channels: int) -> None:
    """An image of any size and colour comes out in the size and the channels asked for."""
    ramp = np.linspace(0, 255, 12).astype(np.uint8)
    image = np.broadcast_to(ramp[:, None, None], [12, 18, 1])
    write(reader.base / "pictures", a_1_png=tf.io.encode_png(image).numpy())
    wanted = {"image": ("uint8", (4, 6, channels))}
    (batch,) = reader.batches(opened(reader, wanted=wanted, channels=channels, resize="smooth"), 2)
    expected = tf.image.resize(image.astype(np.float32), [4, 6], antialias=True).numpy().round()
    np.testing.assert_allclose(batch["image"][0, :, :, 0], expected[:, :, 0], atol=1)


def test_images_are_shuffled_scaled_and_cached(reader: Any) -> None:
    """Transforms apply to images as to any tensor, and epochs are exact."""
    write(reader.base / "pictures", **{f"c_{each}_png": png(each) for each in range(20)})
    stream = reader.open(
        reader.call("images", "pictures", size=(4, 6)),
        reader.call("cast", "image", "float32"),
        reader.call("scale", "image", 0.5),
        reader.call("cache"),
        reader.call("shuffle", 10),
        wanted={"image": ("float32", (4, 6, 3))},
        seed=1,
    )
    batches = reader.batches(stream, 8, repeat=True, most=5)
    values = np.concatenate([each["image"] for each in batches])[:, 0, 0, 0] * 2
    assert [sorted(values[:20].tolist()), sorted(values[20:].tolist())] == [list(range(20))] * 2


@pytest.mark.full
@pytest.mark.parametrize("resize", ["bilinear", "smooth", "crop"])
def test_a_cast_changes_no_pixel(reader: Any, resize: str) -> None:
    """Images that a cast makes floats, under whatever name, are the whole numbers that they were."""
    pixels = np.random.default_rng(1).integers(0, 256, [13, 9, 3], np.uint8)
    write(reader.base / "pictures", a_1_png=tf.io.encode_png(pixels).numpy())
    write(reader.base / "pictures", a_2_jpg=tf.io.encode_jpeg(pixels).numpy())
    record = example(picture=[(reader.base / "pictures" / "a" / "1.png").read_bytes()])
    (reader.base / "pictures.tfrecord").write_bytes(framed(record))
    feature = reader.call("feature", "uint8", (4, 6, 3), encoding="image", key="picture", resize=resize)
    sources = (
        reader.call("images", "pictures", size=(4, 6), resize=resize),
        reader.call("tfrecord", "pictures.tfrecord", image=feature),
    )
    cast = reader.call("cast", "image", "float32")
    renamed = [reader.call("rename", x="image"), reader.call("cast", "x", "float32")]
    found = []
    for source in sources:
        (whole,) = reader.batches(reader.open(source, wanted={"image": ("uint8", (4, 6, 3))}), 2)
        (floats,) = reader.batches(reader.open(source, cast, wanted={"image": ("float32", (4, 6, 3))}), 2)
        (other,) = reader.batches(reader.open(source, *renamed, wanted={"x": ("float32", (4, 6, 3))}), 2)
        assert whole["image"].std() > 10
        np.testing.assert_array_equal(floats["image"], whole["image"])
        np.testing.assert_array_equal(other["x"], whole["image"])
        found.append(whole["image"])
    np.testing.assert_array_equal(found[0][0], found[1][0])
    expected = decode_image(
        tf.constant((reader.base / "pictures" / "a" / "2.jpg").read_bytes()), 4, 6, 3, resize=resize
    )
    np.testing.assert_array_equal(found[0][1], expected)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"size": (4,)}, "`images` takes height and width as `size`"),
        (
            {"size": (4, 6), "channels": 2},
            "`images` takes 1 channel for grey, 3 for colour, 4 with transparency",
        ),
    ],
)
def test_sizes_that_make_no_image_are_refused(reader: Any, more: dict[str, Any], message: str) -> None:
    """Height and width, and 1, 3 or 4 channels, are what an image has."""
    write(reader.base / "pictures", a_1_png=png(1))
    source = reader.call("images", "pictures", **more)
    assert refusal_of(lambda: reader.open(source, wanted=WANTED)).message == message


def test_folders_in_the_folder_of_a_class_are_read(reader: Any) -> None:
    """However deep and whatever their names; a link that leads back to a folder above is told."""
    folder = reader.base / "pictures"
    write(folder, a_2_png=png(20), b_1_png=png(50))
    write(folder / "a", x1_1_JPE=jpeg(10), x10_1_png=png(40))
    write(folder / "a" / "x10" / ".hidden", kind_1_png=b"")
    write(folder / "a" / "x2" / "3.png", deep_1_png=png(30))
    stream = opened(reader)
    (batch,) = reader.batches(stream, 8)
    assert batch["label"].tolist() == [0, 0, 0, 0, 1]
    assert [round(float(each.mean())) // 10 for each in batch["image"]] == [2, 1, 3, 4, 5]
    (folder / "a" / "x2" / "again").symlink_to(folder / "a")
    found = reader.fault(reader.call("images", "pictures", size=(4, 6)), wanted=WANTED)
    assert (found.code, found.message) == (
        "TFD702",
        f"`{folder / 'a' / 'x2' / 'again'}`: this link leads back to a folder that it is in",
    )


@pytest.mark.parametrize("target", ["nothing", "link.jpg"])
def test_a_link_to_nothing_is_told(reader: Any, target: str) -> None:
    """Also one that leads to itself."""
    write(reader.base / "pictures", a_1_png=png(1))
    path = reader.base / "pictures" / "a" / "link.jpg"
    path.symlink_to(target)
    found = reader.fault(reader.call("images", "pictures", size=(4, 6)), wanted=WANTED)
    assert (found.code, found.message) == ("TFD713", f"`{path}`: this is a link to nothing, not a file")


def test_names_of_files_need_not_be_text(reader: Any) -> None:
    """Bytes that are no UTF-8, and signs that Python calls digits."""
    folder = reader.base / "pictures"
    write(folder, a_1_png=png(10))
    for name in (b"\xff.png", "²٣.png".encode()):
        Path(os.fsdecode(os.fsencode(folder / "a") + b"/" + name)).write_bytes(png(20))
    assert max(reader.column(opened(reader), "image"))[0][0] == [20, 20, 20]
