"""`cifar10("data_batch_*.bin")`: files of the binary version of CIFAR-10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.files.regular import open_regular
from tfdeploy.data.options import Field, Tensors
from tfdeploy.data.sources.base import Context, FileSource
from tfdeploy.data.sources.files import name_of, size_of

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

    def records_of(self, files: Sequence[int] | None) -> Any:
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
