"""Files of every kind that is raced, and readers of them: ours, and pipelines as they are written by hand."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import frozen

from benchmarks.figures import RESIZED_AS_FLOATS
from dsl import ir
from tfdeploy.data import Field, StreamOptions, open_split

Make = Callable[[], Any]
"""Makes batches as a dataset of the current graph."""

AUTO = tf.data.AUTOTUNE
DIGITS = Path(__file__).parents[2] / "examples" / "data" / "digits" / "train.csv"
BUFFER = 1024
PHOTOS, PHOTO, SIZE = 256, 256, 224


@frozen
class Files:
    """A kind of files.

    Attributes:
        batch: The number of examples in a batch.
        write: Writes the files into a folder.
        readers: Returns what reads the files of a folder in batches, by the name of each contender.
    """

    batch: int
    write: Callable[[Path], None]
    readers: Callable[[Path], Mapping[str, Make]]


def _ours(
    folder: Path,
    source: ir.Call,
    *transforms: ir.Call,
    batch: int,
    image: tuple[int, ...],
    label: Field = Field("label", "int32", ()),  # noqa: B008 a record that nothing changes
) -> Make:
    split = ir.Split("train", source, (ir.Call("shuffle", (BUFFER,)), *transforms))
    wanted = [Field("image", "float32", image), label]

    def make() -> Any:
        stream = open_split(split, wanted, StreamOptions(folder, seed=1))
        return stream.batches(batch, repeat=True, drop_remainder=True)

    return make


def _mapped(dataset: Any, function: Callable[..., Any]) -> Any:
    return dataset.map(tf.autograph.experimental.do_not_convert(function), num_parallel_calls=AUTO)


# --- images -----------------------------------------------------------------------------------------------


def photo(seed: int, side: int) -> bytes:
    """Return a JPEG of coarse and fine shapes, about as large as one of a photograph."""
    generator = np.random.default_rng(seed)
    image = tf.fill([side, side, 3], 128.0)
    for cells, strength in ((4, 60), (16, 30), (64, 15), (side, 6)):
        shapes = generator.standard_normal([cells, cells, 3]).astype(np.float32)
        image += strength * tf.image.resize(shapes, [side, side], "bicubic")
    return bytes(tf.io.encode_jpeg(tf.saturate_cast(image, tf.uint8), quality=90).numpy())


def _write_images(folder: Path) -> None:
    for number in range(PHOTOS):
        path = folder / "images" / f"{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo(number, PHOTO))


def _decoded(data: Any) -> Any:
    """Decode an image as people do who know that all images are JPEG and hardly larger than wanted.

    They need not look at the kind and the size of each image, and do not round to whole numbers, as we must.
    """
    return tf.image.resize(tf.io.decode_jpeg(data, channels=3), [SIZE, SIZE])


def _resized_floats(data: Any) -> Any:
    """Decode an image as people do who also know that TensorFlow resizes floats twice as fast as bytes."""
    return tf.image.resize(tf.cast(tf.io.decode_jpeg(data, channels=3), tf.float32), [SIZE, SIZE])


def _bytes(data: Any) -> Any:
    """Decode an image to the same pixels as our reader."""
    return tf.cast(tf.round(_decoded(data)), tf.uint8)


CROP = 200
CHANGED = (ir.Call("random_crop", ("image", (CROP, CROP))), ir.Call("random_flip", ("image",)))


def _as_it_is(image: Any) -> Any:
    return image


def _augmented(image: Any) -> Any:
    """Crop and flip an image at random, as people do who need no random numbers that can be had again."""
    return tf.image.random_flip_left_right(tf.image.random_crop(image, [CROP, CROP, 3]))


SCALED = (ir.Call("cast", ("image", "float32")), ir.Call("scale", ("image", 1 / 255)))


def _image_readers(folder: Path, batch: int = 32, *, augment: bool = False) -> Mapping[str, Make]:
    change = _augmented if augment else _as_it_is
    paths = sorted(map(str, (folder / "images").glob("*/*.jpg")))
    labels = [int(Path(path).parent.name) for path in paths]

    def shuffled() -> Any:
        names = tf.data.Dataset.from_tensor_slices((paths, np.array(labels, np.int32)))
        return names.shuffle(BUFFER, seed=1).repeat()

    def floats(decoded: Callable[[Any], Any]) -> Any:
        images = _mapped(
            shuffled(),
            lambda path, label: {"image": change(decoded(tf.io.read_file(path))) * (1 / 255), "label": label},
        )
        return images.batch(batch, drop_remainder=True).prefetch(AUTO)

    def bytes_first() -> Any:
        images = _mapped(shuffled(), lambda path, label: (change(_bytes(tf.io.read_file(path))), label))
        batches = images.batch(batch, drop_remainder=True)
        return _mapped(
            batches, lambda image, label: {"image": tf.cast(image, tf.float32) * (1 / 255), "label": label}
        ).prefetch(AUTO)

    def keras_utility() -> Any:
        import keras

        batches = keras.utils.image_dataset_from_directory(
            folder / "images", image_size=(SIZE, SIZE), batch_size=batch, seed=1, verbose=False
        )
        return _mapped(
            batches.repeat(), lambda image, label: {"image": image * (1 / 255), "label": label}
        ).prefetch(AUTO)

    source = ir.Call("images", (str(folder / "images"), (SIZE, SIZE)))
    readers = {
        "ours": _our_images(folder, source, batch, augment=augment),
        "tf.data, floats": partial(floats, _decoded),
        RESIZED_AS_FLOATS: partial(floats, _resized_floats),
        "tf.data, bytes until batched": bytes_first,
    }
    return readers if augment else {**readers, "image_dataset_from_directory": keras_utility}


def _our_images(folder: Path, source: ir.Call, batch: int, *, augment: bool) -> Make:
    side = CROP if augment else SIZE
    changes = CHANGED if augment else ()
    return _ours(folder, source, *changes, *SCALED, batch=batch, image=(side, side, 3))


def _write_masks(folder: Path) -> None:
    _write_images(folder)
    for number in range(PHOTOS):
        cells = np.random.default_rng(number).integers(0, 21, [16, 16, 1])
        mask = tf.image.resize(cells, [PHOTO, PHOTO], "nearest")
        path = folder / "masks" / f"{number % 4}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_png(tf.cast(mask, tf.uint8)).numpy())


def _mask_readers(folder: Path, batch: int = 32) -> Mapping[str, Make]:
    paths = sorted(map(str, (folder / "images").glob("*/*.jpg")))
    masks = [path.replace("/images/", "/masks/").replace(".jpg", ".png") for path in paths]

    def by_hand(picture: Callable[[Any], Any]) -> Make:
        def decoded(path: Any, mask: Any) -> Any:
            numbers = tf.io.decode_png(tf.io.read_file(mask), channels=1)
            return picture(tf.io.read_file(path)), tf.image.resize(numbers, [SIZE, SIZE], "nearest")

        def make() -> Any:
            names = tf.data.Dataset.from_tensor_slices((paths, masks)).shuffle(BUFFER, seed=1).repeat()
            batches = _mapped(names, decoded).batch(batch, drop_remainder=True)
            return _mapped(
                batches,
                lambda image, mask: {
                    "image": tf.cast(image, tf.float32) * (1 / 255),
                    "mask": tf.cast(mask, tf.int32),
                },
            ).prefetch(AUTO)

        return make

    source = ir.Call("images", (str(folder / "images"), (SIZE, SIZE)), {"masks": str(folder / "masks")})
    changes = (*SCALED, ir.Call("cast", ("mask", "int32")))
    mask = Field("mask", "int32", (SIZE, SIZE, 1))
    return {
        "ours": _ours(folder, source, *changes, batch=batch, image=(SIZE, SIZE, 3), label=mask),
        "tf.data, floats": by_hand(_decoded),
        "tf.data, bytes until batched": by_hand(_bytes),
    }


# --- TFRecord ---------------------------------------------------------------------------------------------


def _example(**features: Any) -> bytes:
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _integers(*values: int) -> Any:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _write_records(folder: Path) -> None:
    with DIGITS.open() as file, tf.io.TFRecordWriter(str(folder / "digits.tfrecord")) as writer:
        rows = list(csv.DictReader(file))
        records = [
            _example(
                image=tf.train.Feature(
                    float_list=tf.train.FloatList(value=[float(row[f"pixel_{at}"]) for at in range(64)])
                ),
                label=_integers(int(row["digit"])),
            )
            for row in rows
        ]
        for record in records * 20:
            writer.write(record)


NUMBERS = {"image": tf.io.FixedLenFeature([64], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}


def _with_label(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**found, "label": tf.cast(found["label"], tf.int32)}


def _record_readers(folder: Path, batch: int = 64) -> Mapping[str, Make]:
    path = str(folder / "digits.tfrecord")

    def parsed() -> Any:
        records = tf.data.TFRecordDataset(path, buffer_size=1 << 20).shuffle(BUFFER, seed=1).repeat()
        batches = records.batch(batch, drop_remainder=True)
        return _mapped(batches, lambda each: _with_label(tf.io.parse_example(each, NUMBERS))).prefetch(AUTO)

    def one_by_one() -> Any:
        records = tf.data.TFRecordDataset(path).shuffle(BUFFER, seed=1).repeat()
        examples = _mapped(records, lambda each: _with_label(tf.io.parse_single_example(each, NUMBERS)))
        return examples.batch(batch, drop_remainder=True).prefetch(AUTO)

    def batched_features() -> Any:
        batches = tf.data.experimental.make_batched_features_dataset(
            path, batch, NUMBERS, shuffle_buffer_size=BUFFER, shuffle_seed=1, drop_final_batch=True
        )
        return _mapped(batches, _with_label).prefetch(AUTO)

    feature = ir.Call("feature", ("float32", (64,)))
    source = ir.Call("tfrecord", (path,), {"image": feature, "label": ir.Call("feature", ("int32",))})
    return {
        "ours": _ours(folder, source, batch=batch, image=(64,)),
        "tf.data, batches parsed": parsed,
        "tf.data, records parsed": one_by_one,
        "make_batched_features_dataset": batched_features,
    }


def _write_image_records(folder: Path) -> None:
    with tf.io.TFRecordWriter(str(folder / "images.tfrecord")) as writer:
        for number in range(PHOTOS):
            image = tf.train.Feature(bytes_list=tf.train.BytesList(value=[photo(number, PHOTO)]))
            writer.write(_example(image=image, label=_integers(number % 4)))


IMAGES = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def _image_record_readers(folder: Path, batch: int = 32, *, augment: bool = False) -> Mapping[str, Make]:
    change = _augmented if augment else _as_it_is
    path = str(folder / "images.tfrecord")

    def records() -> Any:
        return tf.data.TFRecordDataset(path, buffer_size=1 << 20).shuffle(BUFFER, seed=1).repeat()

    def floats(decode: Callable[[Any], Any]) -> Any:
        def decoded(record: Any) -> Any:
            found = tf.io.parse_single_example(record, IMAGES)
            image = change(decode(found["image"])) * (1 / 255)
            return {"image": image, "label": tf.cast(found["label"], tf.int32)}

        return _mapped(records(), decoded).batch(batch, drop_remainder=True).prefetch(AUTO)

    def bytes_first() -> Any:
        def decoded(record: Any) -> Any:
            found = tf.io.parse_single_example(record, IMAGES)
            return change(_bytes(found["image"])), tf.cast(found["label"], tf.int32)

        batches = _mapped(records(), decoded).batch(batch, drop_remainder=True)
        return _mapped(
            batches, lambda image, label: {"image": tf.cast(image, tf.float32) * (1 / 255), "label": label}
        ).prefetch(AUTO)

    image = ir.Call("feature", ("uint8", (SIZE, SIZE, 3)), {"encoding": "image"})
    source = ir.Call("tfrecord", (path,), {"image": image, "label": ir.Call("feature", ("int32",))})
    return {
        "ours": _our_images(folder, source, batch, augment=augment),
        "tf.data, floats": partial(floats, _decoded),
        RESIZED_AS_FLOATS: partial(floats, _resized_floats),
        "tf.data, bytes until batched": bytes_first,
    }


# --- CSV --------------------------------------------------------------------------------------------------


def _write_csv(folder: Path) -> None:
    header, body = DIGITS.read_text().split("\n", 1)
    (folder / "digits.csv").write_text(header + "\n" + body * 20)


def _csv_readers(folder: Path, batch: int = 64) -> Mapping[str, Make]:
    path = str(folder / "digits.csv")

    def stacked(columns: Mapping[str, Any], digit: Any) -> Any:
        return {"image": tf.stack(list(columns.values()), 1), "label": digit}

    def lines() -> Any:
        read = tf.data.TextLineDataset(path, buffer_size=1 << 20).skip(1).shuffle(BUFFER, seed=1).repeat()

        def parsed(each: Any) -> Any:
            *pixels, digit = tf.io.decode_csv(each, [[0.0]] * 64 + [[0]])
            return {"image": tf.stack(pixels, 1), "label": digit}

        return _mapped(read.batch(batch, drop_remainder=True), parsed).prefetch(AUTO)

    def csv_dataset() -> Any:
        rows = tf.data.experimental.CsvDataset(path, [[0.0]] * 64 + [[0]], header=True)
        batches = rows.shuffle(BUFFER, seed=1).repeat().batch(batch, drop_remainder=True)
        return _mapped(batches, lambda *row: {"image": tf.stack(row[:-1], 1), "label": row[-1]}).prefetch(
            AUTO
        )

    def made() -> Any:
        batches = tf.data.experimental.make_csv_dataset(
            path,
            batch,
            label_name="digit",
            column_defaults=[0.0] * 64 + [0],
            shuffle_buffer_size=BUFFER,
            shuffle_seed=1,
        )
        return _mapped(batches, stacked).prefetch(AUTO)

    source = ir.Call("csv", (path,), {"image": "pixel_*", "label": "digit"})
    return {
        "ours": _ours(folder, source, batch=batch, image=(64,)),
        "tf.data, batches of lines": lines,
        "CsvDataset": csv_dataset,
        "make_csv_dataset": made,
    }


FILES = {
    "JPEG images": Files(32, _write_images, _image_readers),
    "JPEG images, augmented": Files(32, _write_images, partial(_image_readers, augment=True)),
    "images with masks": Files(32, _write_masks, _mask_readers),
    "TFRecord": Files(64, _write_records, _record_readers),
    "TFRecord of JPEG": Files(32, _write_image_records, _image_record_readers),
    "TFRecord of JPEG, augmented": Files(
        32, _write_image_records, partial(_image_record_readers, augment=True)
    ),
    "CSV": Files(64, _write_csv, _csv_readers),
}
