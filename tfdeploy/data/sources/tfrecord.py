"""`tfrecord("train-*.tfrecord", image = feature(float32, [64]))`: records of tf.train.Example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data import small_graphs
from tfdeploy.data.arguments import BOUNDS, FLOATS, Feature, Field, Tensors, features
from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.base import Context, FileSource
from tfdeploy.data.sources.files import name_of
from tfdeploy.data.sources.pixels import decode_image
from tfdeploy.data.sources.tfrecord_file import RecordFile
from tfdeploy.data.transforms.changes import checked_cast

CHUNK = 1024


class TfRecord(FileSource):
    """Files of serialized tf.train.Example, of which each keyword takes one feature."""

    finite = False

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.features = features(self.given)
        keys = [each.key for each in self.features.values()]
        if len(set(keys)) < len(keys):
            self.given.refuse("takes one feature twice")
        self.fields = tuple(each.field for each in self.features.values())
        # Images are better decoded side by side.
        self.per_record = any(each.encoding == "image" for each in self.features.values())
        paths = self.found()
        self.files = tuple(RecordFile(path, call.span, self.given["compression"]) for path in paths)
        for file in self.files:
            file.check_start()

    def counts(self) -> tuple[int, ...]:
        """Count the records of each file, hopping from one to the next."""
        return tuple(file.count for file in self.files)

    def records(self, files: Sequence[int] | None = None) -> Any:
        """Return the serialized examples."""
        chosen = range(len(self.files)) if files is None else files
        names = [name_of(self.files[number].path) for number in chosen]
        compression = self.files[0].compression.replace("none", "").upper()
        return tf.data.TFRecordDataset(names, compression, buffer_size=1 << 20)

    def decode(self, record: Any) -> Tensors:
        """Return the features of a batch of serialized examples, or of one."""
        return self.decode_as(record, frozenset())

    def decode_as(self, record: Any, floats: frozenset[str]) -> Tensors:
        """Return the features, images as floats if they are among them."""
        parse = tf.io.parse_single_example if self.per_record else tf.io.parse_example
        parsed = parse(record, {each.key: _parsed(each) for each in self.features.values()})
        return {
            name: decoded(each, parsed[each.key], "float32" if name in floats else each.field.dtype)
            for name, each in self.features.items()
        }

    def check(self) -> None:
        """Check that some record has a value of each feature of any size, which TensorFlow would not miss."""
        ragged = [each for each in self.features.values() if each.field.ragged]
        held = names_in(self.files[0], 0) if ragged and self.files[0].count else None
        if held is None:
            return
        for each in ragged:
            if each.key not in held and not self._is_anywhere(each):
                where = Where(str(self.files[0].path), call=each.span or self.span)
                raise RunError(errors.missing_field(where, kind="feature", name=each.key, known=sorted(held)))

    def _is_anywhere(self, feature: Feature) -> bool:
        """Whether a record has a value of a feature of any size, as far as the records can be read."""

        def values(records: Any) -> Any:
            parsed = tf.io.parse_example(records, {feature.key: _parsed(feature)})[feature.key]
            return {feature.key: tf.size(parsed.flat_values)}

        def some() -> Any:
            sizes = self.records().batch(CHUNK).map(without_autograph(values))
            return sizes.filter(without_autograph(lambda each: each[feature.key] > 0))

        try:
            return small_graphs.first_element(some) is not None
        except small_graphs.FAILURES:
            return True  # the fault is told when the record is read

    def where(self, index: int) -> Where:
        """Return file and record of example `index`."""
        file, number = self.place(index)
        return self.files[file].where(number)

    def words_for(self, name: str) -> str:
        """Return the feature of a tensor."""
        return f"feature `{self.features[name].key}`"

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Say what is wrong with record `index`: its bytes, or one of its features."""
        at, number = self.place(index)
        return record_fault(self.files[at], number, list(self.features.values())) or super().fault(
            index, reason
        )


def _parsed(feature: Feature) -> tf.io.FixedLenFeature | tf.io.RaggedFeature:
    if feature.field.ragged:
        dtype = feature.field.dtype
        kind = tf.string if dtype == "string" else tf.float32 if dtype in FLOATS else tf.int64
        return tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64)
    if feature.encoding != "list" or feature.field.dtype == "string":
        shape = feature.field.shape if feature.encoding == "list" else ()
        return tf.io.FixedLenFeature(shape, tf.string)
    kind = tf.float32 if feature.field.dtype in FLOATS else tf.int64
    return tf.io.FixedLenFeature(feature.field.shape, kind)


def decoded(feature: Feature, parsed: Any, image_dtype: str) -> Any:
    """Return one tensor of the feature's shape, or a batch, and its dtype, or one image of `image_dtype`.

    Args:
        parsed: The values in the file: numbers, or bytes that hold them or an image.
        image_dtype: `float32`, or the dtype of the feature.
    """
    field = feature.field
    if field.ragged:
        return _rows(field, parsed)
    if feature.encoding == "list":
        # Whole numbers are kept in 64 bits, and may not fit into fewer.
        return (
            parsed if field.dtype in {"float32", "string"} else checked_cast(parsed, field.name, field.dtype)
        )
    if feature.encoding == "raw":
        width = tf.as_dtype(field.dtype).size * field.numbers
        right = tf.reduce_all(tf.equal(tf.strings.length(parsed), width))
        with tf.control_dependencies([tf.debugging.Assert(right, [f"`{field.name}` has another length"])]):
            numbers = tf.io.decode_raw(parsed, field.dtype)
        batch = [-1 if each is None else each for each in parsed.shape]
        return tf.reshape(numbers, [*batch, *field.shape])
    whole = image_dtype == "float32" and field.dtype in {"uint8", "float32"}
    image = decode_image(parsed, *field.sizes, resize=feature.resize, dtype=tf.float32 if whole else tf.uint8)
    return image if whole else tf.cast(image, field.dtype)


def _rows(field: Field, parsed: Any) -> Any:
    """Return the values of a feature with the size of the first axis of each record, or of the one record."""
    ragged = isinstance(parsed, tf.RaggedTensor)
    values = parsed.flat_values if ragged else parsed
    if field.dtype not in {"float32", "string"}:
        values = checked_cast(values, field.name, field.dtype)
    width = evolve(field, shape=field.shape[1:]).numbers
    if width > 1 or len(field.shape) > 1:
        sizes = parsed.row_lengths() if ragged else tf.shape(parsed)
        right = tf.reduce_all(tf.equal(sizes % width, 0))
        with tf.control_dependencies([tf.debugging.Assert(right, [f"`{field.name}` has another size"])]):
            values = tf.reshape(values, [-1, *(each or -1 for each in field.shape[1:])])
    if not ragged:
        return values
    return tf.RaggedTensor.from_row_splits(values, parsed.row_splits // width, validate=False)


KINDS = {"bytes_list": "bytes", "float_list": "floats", "int64_list": "whole numbers", None: "nothing"}


def record_fault(file: RecordFile, number: int, features: Sequence[Feature]) -> Diagnostic | None:
    """Say what is wrong with a record, from which `features` are read; None if nothing is."""
    held = held_by(file, number)
    if isinstance(held, Diagnostic):
        return held
    for feature in features:
        if feature.field.ragged and not _has_kind(held, feature.key):
            continue  # an empty list
        if feature.key not in held:
            where, known = file.where(number), sorted(held)
            return errors.missing_field(where, kind="feature", name=feature.key, known=known)
        where = Where(
            str(file.path), f"record {number}, feature `{feature.key}`", call=feature.span or file.call
        )
        found = _feature_fault(where, held[feature.key], feature)
        if found is not None:
            return found
    return None


def names_in(file: RecordFile, number: int) -> list[str] | None:
    """Return the names of the features that a record has, or None if it cannot be read."""
    held = held_by(file, number)
    return None if isinstance(held, Diagnostic) else [name for name in held if _has_kind(held, name)]


def held_by(file: RecordFile, number: int) -> Mapping[str, Any] | Diagnostic:
    """Return the features of a record by name, or what is wrong with its bytes."""
    data = file.record(number)
    if isinstance(data, Diagnostic):
        return data
    try:
        example = tf.train.Example.FromString(data)
    except Exception:  # noqa: BLE001 protobuf's DecodeError has moved between its versions
        return errors.wrong_kind(
            file.where(number), found="bytes of another form", wanted="a tf.train.Example"
        )
    held: Mapping[str, Any] = example.features.feature
    return held


def _has_kind(held: Mapping[str, Any], name: str) -> bool:
    """Whether there is a feature of a name with a list, which may be empty."""
    return name in held and held[name].WhichOneof("kind") is not None


def _feature_fault(where: Where, held: Any, feature: Feature) -> Diagnostic | None:
    kind, wanted = held.WhichOneof("kind"), _wanted_kind(feature)
    if kind != wanted:
        return errors.wrong_kind(
            where, found=KINDS[kind], wanted=KINDS[wanted], advice=_encoding_advice(kind, feature)
        )
    values = getattr(held, kind).value
    return values_fault(where, values, feature)


def values_fault(where: Where, values: Sequence[Any], feature: Feature) -> Diagnostic | None:
    """Say what is wrong with the values of a feature, in number, size or content; None if nothing is."""
    return _size_fault(where, values, feature) or _value_fault(where, values, feature)


def _size_fault(where: Where, values: Sequence[Any], feature: Feature) -> Diagnostic | None:
    if feature.field.ragged:
        width = evolve(feature.field, shape=feature.field.shape[1:]).numbers
        wanted = f"a multiple of {width} for {feature.field.words}"
        return (
            None
            if len(values) % width == 0
            else errors.wrong_shape(where, found=f"{len(values)} values", wanted=wanted)
        )
    size = feature.field.numbers
    if feature.encoding == "list" and len(values) != size:
        return errors.wrong_shape(
            where, found=f"{len(values)} values", wanted=f"{size} of {feature.field.words}"
        )
    if feature.encoding != "list" and len(values) != 1:
        return errors.wrong_shape(where, found=f"{len(values)} values", wanted="one string of bytes")
    if feature.encoding == "raw":
        size *= tf.as_dtype(feature.field.dtype).size
        if len(values[0]) != size:
            return errors.wrong_shape(
                where, found=f"{len(values[0])} bytes", wanted=f"{size} of {feature.field.words}"
            )
    return None


def _value_fault(where: Where, values: Sequence[Any], feature: Feature) -> Diagnostic | None:
    if feature.encoding == "image":
        try:
            small_graphs.evaluate(
                lambda: decode_image(tf.constant(values[0]), *feature.field.sizes, resize=feature.resize)
            )
        except small_graphs.FAILURES as error:
            return errors.image(where, reason=f"the image cannot be decoded: {small_graphs.reason_of(error)}")
    if feature.encoding != "list" or feature.field.dtype not in BOUNDS:
        return None
    low, high = BOUNDS[feature.field.dtype]
    bad = next((value for value in values if not low <= value <= high), None)
    if bad is None:
        return None
    return errors.out_of_range(
        where, value=str(bad), reason=f"is outside {feature.field.dtype}, which holds {low} to {high}"
    )


def _wanted_kind(feature: Feature) -> str:
    if feature.encoding != "list" or feature.field.dtype == "string":
        return "bytes_list"
    return "float_list" if feature.field.dtype in FLOATS else "int64_list"


def _encoding_advice(kind: str | None, feature: Feature) -> str | None:
    if kind == "bytes_list" and feature.encoding == "list":
        return "say how the bytes are to be read: `encoding = raw` or `encoding = image`"
    return None
