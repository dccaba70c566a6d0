"""What is wrong with a record of a TFRecord file: its bytes, their form, or a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import evolve

from dsl.diagnostics import Diagnostic
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.suggest import nearest
from tfdeploy.data import small_graphs
from tfdeploy.data.options import BOUNDS, FLOATS
from tfdeploy.data.sources.pixels import decode_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfdeploy.data.sources.features import Feature
    from tfdeploy.data.sources.tfrecord.file import RecordFile

KINDS = {"bytes_list": "bytes", "float_list": "floats", "int64_list": "whole numbers", None: "nothing"}


def record_fault(file: RecordFile, number: int, features: Sequence[Feature]) -> Diagnostic | None:
    """Say what is wrong with a record, from which `features` are read; None if nothing is.

    Args:
        file: The file.
        number: The number of the record, counted from 0.
        features: The features that are read from it.
    """
    held = _features_of(file, number)
    if isinstance(held, Diagnostic):
        return held
    for feature in features:
        if feature.field.ragged and not _has_kind(held, feature.key):
            continue  # an empty list
        if feature.key not in held:
            near = nearest(feature.key, held)
            return errors.missing_field(
                file.where(number), kind="feature", name=feature.key, names=sorted(held), nearest=near
            )
        where = Where(
            str(file.path), f"record {number}, feature `{feature.key}`", call=feature.span or file.call
        )
        found = _feature_fault(where, held[feature.key], feature)
        if found is not None:
            return found
    return None


def names_in(file: RecordFile, number: int) -> list[str] | None:
    """Return the names of the features that a record has, or None if it cannot be read.

    Args:
        file: The file.
        number: The number of the record, counted from 0.
    """
    held = _features_of(file, number)
    return None if isinstance(held, Diagnostic) else [name for name in held if _has_kind(held, name)]


def _features_of(file: RecordFile, number: int) -> Mapping[str, Any] | Diagnostic:
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
