"""MNIST and CIFAR-10, in the files in which they are published: idx files, and those in binary form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import tensorflow as tf
from attrs import frozen

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.files.regular import open_regular
from tfdeploy.data.arguments import Field, Tensors
from tfdeploy.data.sources.base import Context, FileSource, Source
from tfdeploy.data.sources.files import PackedFile, fault_within, name_of, size_of

UNSIGNED_BYTES = 8
IMAGE_AXES, LABEL_AXES = 3, 1


@frozen(eq=False)
class IdxFile(PackedFile):
    """An idx file of bytes."""

    axes: int

    @property
    def header(self) -> int:
        """Bytes of the header: two zeros, type, number of axes, and the size of each in four bytes."""
        return 4 + 4 * self.axes

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes; raises RunError for a file that is no such idx file, or not of that size."""
        with self.opened() as file:
            start = file.read(self.header)
        if not start:
            raise RunError(errors.empty(self.at(), what="the file is empty"))
        magic = bytes([0, 0, UNSIGNED_BYTES, self.axes])
        if start[:4] != magic:
            raise RunError(errors.unreadable(self.at(), reason=self._other_kind(start[:4])))
        if len(start) < self.header:
            raise RunError(errors.damaged(self.at(), reason="the file ends within its header"))
        sizes = tuple(int.from_bytes(start[at : at + 4], "big") for at in range(4, self.header, 4))
        found, wanted = self._length(), self.header + prod(sizes)
        if found != wanted:
            reason = f"holds {found:,} bytes where its header promises {wanted:,}"
            raise RunError(errors.damaged(self.at(), reason=reason))
        return sizes

    def _other_kind(self, magic: bytes) -> str:
        kinds = {IMAGE_AXES: "images", LABEL_AXES: "labels"}
        for axes, kind in kinds.items():
            if magic == bytes([0, 0, UNSIGNED_BYTES, axes]):
                return f"this idx file holds {kind}, not {kinds[self.axes]}"
        return f"this is no idx file of {kinds[self.axes]}"

    def _length(self) -> int:
        """Return the bytes of the file, unpacked; gzip keeps that number, modulo 2**32, at its end."""
        with open_regular(self.path) as file:
            end = file.seek(0, 2)
            if not self.compressed:
                return end
            file.seek(max(end - 4, 0))
            return int.from_bytes(file.read(4), "little")

    def records(self, size: int) -> Any:
        """Return the bytes of each record of `size`."""
        packing = "GZIP" if self.compressed else None
        return tf.data.FixedLengthRecordDataset(
            name_of(self.path), size, self.header, buffer_size=1 << 20, compression_type=packing
        )


class Mnist(Source):
    """`image`, uint8[height, width, 1], and `label`, int32."""

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.images = IdxFile(self._file("images"), self.given.span("images"), IMAGE_AXES)
        self.labels = IdxFile(self._file("labels"), self.given.span("labels"), LABEL_AXES)
        self.length, height, width = self.images.sizes
        if self.labels.sizes[0] != self.length:
            wanted = f"{self.length}, one for each image"
            raise RunError(
                errors.wrong_shape(self.labels.at(), found=f"{self.labels.sizes[0]} labels", wanted=wanted)
            )
        self.fields = (Field("image", "uint8", (height, width, 1)), Field("label", "int32", ()))

    def _file(self, name: str) -> Path:
        found = self.found(name)
        if len(found) > 1:
            reason = f"takes one file as `{name}`, and `{self.given[name]}` matches {len(found)}"
            self.given.refuse(reason, name)
        return found[0]

    def records(self) -> Any:
        """Return the bytes of each image and each label."""
        height, width, _ = self.fields[0].sizes
        return tf.data.Dataset.zip(
            {"image": self.images.records(height * width), "label": self.labels.records(1)}
        )

    def decode(self, record: Any) -> Tensors:
        """Return a batch of images and labels."""
        batch = record["image"].shape[0]
        image = tf.io.decode_raw(record["image"], tf.uint8)
        label = tf.io.decode_raw(record["label"], tf.uint8)
        shape = [-1 if batch is None else batch]
        return {
            "image": tf.reshape(image, [*shape, *self.fields[0].shape]),
            "label": tf.cast(tf.reshape(label, shape), tf.int32),
        }

    def where(self, index: int) -> Where:
        """Return the number of the image."""
        return self.at(self.images.path, f"image {index}")

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Return the diagnostic about the file that is damaged."""
        damage = fault_within(self.images.opened()) or fault_within(self.labels.opened())
        return damage or super().fault(index, reason)


# --- CIFAR-10 ---------------------------------------------------------------------------------------------

SIDE, CHANNELS, CLASSES = 32, 3, 10
RECORD = 1 + SIDE * SIDE * CHANNELS
"""Bytes of a record: the label, then the red, the green and the blue pixels, row by row."""


class Cifar10(FileSource):
    """`image`, uint8[32, 32, 3], and `label`, int32 from 0 to 9."""

    fields = (Field("image", "uint8", (SIDE, SIDE, CHANNELS)), Field("label", "int32", ()))

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.files = self.found()
        self.sizes = []
        for path in self.files:
            size = size_of(path, call.span)
            where = self.at(path)
            if size == 0:
                raise RunError(errors.empty(where, what="the file is empty"))
            if size % RECORD:
                reason = f"{size:,} bytes are no whole number of records of {RECORD:,}"
                advice = "use the files of the binary version, `data_batch_1.bin` and so on"
                raise RunError(errors.damaged(where, reason=reason, advice=advice))
            self.sizes.append(size)

    def counts(self) -> tuple[int, ...]:
        """Return how many records the size of each file makes."""
        return tuple(size // RECORD for size in self.sizes)

    def records(self, files: Sequence[int] | None = None) -> Any:
        """Return the bytes of the records."""
        chosen = range(len(self.files)) if files is None else files
        names = [name_of(self.files[number]) for number in chosen]
        return tf.data.FixedLengthRecordDataset(names, RECORD, buffer_size=1 << 20)

    def decode(self, record: Any) -> Tensors:
        """Return a batch of images, colours last, and labels."""
        numbers = tf.io.decode_raw(record, tf.uint8, fixed_length=RECORD)
        numbers.set_shape([record.shape[0], RECORD])
        label = tf.cast(numbers[:, 0], tf.int32)
        known = tf.debugging.Assert(tf.reduce_all(label < CLASSES), ["a label is no class"])
        with tf.control_dependencies([known]):
            planes = tf.reshape(numbers[:, 1:], [-1, CHANNELS, SIDE, SIDE])
            image = tf.ensure_shape(
                tf.transpose(planes, [0, 2, 3, 1]), [record.shape[0], SIDE, SIDE, CHANNELS]
            )
            return {"image": image, "label": tf.identity(label)}

    def where(self, index: int) -> Where:
        """Return file and record of example `index`."""
        number, record = self.place(index)
        return self.at(self.files[number], f"record {record}")

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Return the diagnostic about a label that is none, the only fault that a record can have."""
        number, record = self.place(index)
        with open_regular(self.files[number]) as file:
            file.seek(record * RECORD)
            label = file.read(1)
        if label and label[0] >= CLASSES:
            where = self.where(index)
            return errors.out_of_range(
                where, value=str(label[0]), reason=f"is no label, which are 0 to {CLASSES - 1}"
            )
        return super().fault(index, reason)
