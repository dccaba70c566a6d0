"""The examples of a spec: the sources and transforms of its `data` block, read through tf.data.

`open_split` checks a split against its files and the model's inputs and gives a `Stream`, which makes
datasets in whatever graph is current.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import data as errors
from dsl.suggest import nearest
from tfdeploy.data.arguments import FLOATS, Field, StreamOptions
from tfdeploy.data.sources.arrow import Arrow, Parquet
from tfdeploy.data.sources.base import Context, Source
from tfdeploy.data.sources.csv import Csv
from tfdeploy.data.sources.generated import Python, Synthetic
from tfdeploy.data.sources.images import Images
from tfdeploy.data.sources.mnist_cifar10 import Cifar10, Mnist
from tfdeploy.data.sources.npz import Npz
from tfdeploy.data.sources.tfrecord import TfRecord
from tfdeploy.data.streams.stream import Stream
from tfdeploy.data.streams.windows import over_windows
from tfdeploy.data.transforms.changes import Bucket, Cast, Change, OneHot, Pad, Rename, Transform
from tfdeploy.data.transforms.table import TRANSFORMS, require_order

__all__ = ["SOURCES", "TRANSFORMS", "Field", "Stream", "StreamOptions", "open_split"]

SOURCES: dict[str, type[Source]] = {
    "arrow": Arrow,
    "cifar10": Cifar10,
    "csv": Csv,
    "images": Images,
    "mnist": Mnist,
    "npz": Npz,
    "parquet": Parquet,
    "python": Python,
    "synthetic": Synthetic,
    "tfrecord": TfRecord,
}
"""The sources by the name they have in the language."""

EXACT = ("int32", "int64", "uint32", "uint64", "float64")
"""Dtypes with numbers that float32 cannot represent exactly."""


def open_split(split: ir.Split, wanted: Sequence[Field], options: StreamOptions) -> Stream:
    """Open the data of a split.

    The records themselves are not read; see `Stream.check`.

    Raises:
        SpecError: If the source or a transform does not exist, or the transforms do not fit the data, or the
            data does not fit the inputs.
        RunError: If files are missing or damaged.
    """
    transforms = [TRANSFORMS[call.name](call) for call in split.transforms]
    require_order(transforms)
    kind = SOURCES[split.source.name]
    names = [name for name in split.source.kwargs if kind.names_tensors]
    context = Context(
        options.base,
        _read_as(names, transforms, wanted),
        _free(transforms, wanted),
        _longest(transforms, wanted),
    )
    source, transforms = over_windows(kind(split.source, context), transforms)
    fields = {each.name: each for each in source.fields}
    for transform in transforms:
        if isinstance(transform, Change):
            fields = transform.fields(fields)
        elif isinstance(transform, Bucket):
            transform.require_lengths(fields)
    misfits = list(_misfits(split, fields, wanted))
    if misfits:
        raise SpecError(misfits)
    own = tuple(fields[each.name] for each in wanted)
    return Stream(split, source, tuple(transforms), own, options)


def _read_as(
    names: Sequence[str], transforms: Sequence[Transform], wanted: Sequence[Field]
) -> Mapping[str, str]:
    """Return the dtype in which each tensor that feeds an input is to be read, by its name.

    That is the dtype of the input. If there is a `cast` between them, it is float32, or float64 if whole
    numbers could lose digits. The argument of `one_hot` is read as whole numbers.
    """
    inputs = {each.name: each.dtype for each in wanted}
    best: dict[str, str] = {}
    for name in names:
        now, dtype = name, ""
        for transform in transforms:
            match transform:
                case Rename():
                    now = transform.after(now)
                case Cast(name=changed) if changed == now and not dtype:
                    dtype = "float64" if transform.dtype in EXACT else "float32"
                case OneHot(name=changed) if changed == now and not dtype:
                    dtype = "int32"
        if now in inputs:
            best[name] = dtype or inputs[now]
    return best


def _free(transforms: Sequence[Transform], wanted: Sequence[Field]) -> Mapping[str, frozenset[int]]:
    """Return which axes of the tensors of the source have no fixed size, by the tensors that `pad` fills.

    These are the axes of the input that are `none`, or the first axis if the input has a fixed shape.
    """
    inputs = {each.name: each for each in wanted}
    free: dict[str, frozenset[int]] = {}
    for at, transform in enumerate(transforms):
        for name in transform.names if isinstance(transform, Pad) else ():
            asked = inputs.get(_renamed(name, transforms[at:]))
            axes = [number for number, size in enumerate(asked.shape if asked else ()) if size is None]
            free[_original(name, transforms[:at])] = frozenset(axes or [0])
    return free


def _longest(transforms: Sequence[Transform], wanted: Sequence[Field]) -> Mapping[str, int]:
    """Return the size of the first axis that inputs have or are assumed to have, by tensors of the source."""
    sizes = {each.name: each.shape[:1] if None not in each.shape[:1] else each.assumed[:1] for each in wanted}
    return {
        _original(name, transforms): size
        for name, found in sizes.items()
        for size in found
        if size is not None
    }


def _renamed(name: str, transforms: Sequence[Transform]) -> str:
    """Return the name that a tensor has after transforms."""
    for each in transforms:
        if isinstance(each, Rename):
            name = each.after(name)
    return name


def _original(name: str, transforms: Sequence[Transform]) -> str:
    """Return the name that a tensor had before transforms."""
    for each in reversed(transforms):
        if isinstance(each, Rename):
            name = each.names.get(name, name)
    return name


def _misfits(split: ir.Split, fields: Mapping[str, Field], wanted: Sequence[Field]) -> Iterator[Diagnostic]:
    """Yield the errors about the inputs that the examples do not feed."""
    span = split.source.span
    for each in wanted:
        field = fields.get(each.name)
        if field is None:
            spare = [name for name in fields if name not in {other.name for other in wanted}]
            near = nearest(each.name, spare) or (spare[0] if len(spare) == 1 else None)
            yield errors.lacks_input(span, split=split.name, name=each.name, names=list(fields), near=near)
        elif field.ragged:
            yield errors.different_lengths(span, name=each.name, found=field.words, pad=_pad_for(each))
        elif field.dtype != each.dtype or not _fits(field.shape, each.shape):
            yield errors.does_not_fit(
                span, name=each.name, found=field.words, wanted=each.words, advice=_advice(field, each)
            )


def _fits(found: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(size in (None, given) for given, size in pairs)


def _pad_for(asked: Field) -> str:
    """Return the transform that fills a tensor to the sizes that an input wants."""
    size = f", to = {asked.shape[0]}" if asked.shape and asked.shape[0] else ""
    return f"-> pad({asked.name}{size})"


def _advice(field: Field, asked: Field) -> str:
    if None in field.shape:
        shape = field.words.removeprefix(field.dtype)
        return f"give the input the shape `{shape}`, or `pad` the size `to = SIZE`"
    if field.dtype == asked.dtype and field.numbers == asked.numbers and None not in asked.shape:
        return f"add `-> reshape({field.name}, {list(asked.shape)})`, or change the input"
    if field.shape == asked.shape:
        return f"add `-> cast({field.name}, {asked.dtype})`, or change the input"
    if asked.dtype in FLOATS and asked.shape[:-1] == field.shape:
        return f"add `-> one_hot({field.name}, {asked.shape[-1]})`, or change the input"
    return "change the transforms or the input"
