"""`mnist(images = "train-images-idx3-ubyte.gz", labels = "train-labels-idx1-ubyte.gz")`: idx files."""

from __future__ import annotations

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
from dsl.source import Span
from tfdeploy.data.options import Field, Tensors
from tfdeploy.data.sources.base import Context, Source
from tfdeploy.data.sources.files import is_gzip, name_of, open_binary, reading

UNSIGNED_BYTES = 8
IMAGE_AXES, LABEL_AXES = 3, 1


@frozen(eq=False)
class IdxFile:
    """An idx file of bytes, which may be compressed by gzip.

    Attributes:
        path: The file.
        axes: The number of its axes.
        call: The place of the source in the spec.
    """

    path: Path
    axes: int
    call: Span | None

    @cached_property
    def compressed(self) -> bool:
        """Whether the file is packed by gzip."""
        return is_gzip(self.path, self.call)

    @property
    def where(self) -> Where:
        """The file as a whole."""
        return Where(str(self.path), call=self.call)

    @property
    def header(self) -> int:
        """Bytes of the header: two zeros, type, number of axes, and the size of each in four bytes."""
        return 4 + 4 * self.axes

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axes; raises RunError for a file that is no such idx file, or not of that size."""
        with reading(self.path, self.call), open_binary(self.path, compressed=self.compressed) as file:
            start = file.read(self.header)
        if not start:
            raise RunError(errors.empty(self.where, what="the file is empty"))
        magic = bytes([0, 0, UNSIGNED_BYTES, self.axes])
        if start[:4] != magic:
            raise RunError(errors.unreadable(self.where, reason=self._other_kind(start[:4])))
        if len(start) < self.header:
            raise RunError(errors.damaged(self.where, reason="the file ends within its header"))
        sizes = tuple(int.from_bytes(start[at : at + 4], "big") for at in range(4, self.header, 4))
        found, wanted = self._length(), self.header + prod(sizes)
        if found != wanted:
            reason = f"holds {found:,} bytes where its header promises {wanted:,}"
            raise RunError(errors.damaged(self.where, reason=reason))
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

    def damage(self) -> Diagnostic | None:
        """Read the whole file; return the diagnostic if that fails."""
        try:
            with reading(self.path, self.call), open_binary(self.path, compressed=self.compressed) as file:
                while file.read(1 << 20):
                    pass
        except RunError as error:
            return error.diagnostic
        return None


class Mnist(Source):
    """`image`, uint8[height, width, 1], and `label`, int32."""

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.images = IdxFile(self._file("images"), IMAGE_AXES, self.given.span("images"))
        self.labels = IdxFile(self._file("labels"), LABEL_AXES, self.given.span("labels"))
        self.length, height, width = self.images.sizes
        if self.labels.sizes[0] != self.length:
            wanted = f"{self.length}, one for each image"
            raise RunError(
                errors.wrong_shape(self.labels.where, found=f"{self.labels.sizes[0]} labels", wanted=wanted)
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
        return self.images.damage() or self.labels.damage() or super().fault(index, reason)
