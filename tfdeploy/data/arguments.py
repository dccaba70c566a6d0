"""How a split is to be read, the tensors of its examples, and the arguments of its source and transforms.

The reader of specs has compared arguments with the tables of the language; what is refused here, no table
says.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from attrs import field, frozen

from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import data as errors
from dsl.schema.data_functions import FEATURES, LENGTHS, RESIZES, SOURCES, TRANSFORMS
from dsl.source import Span

ROUGH_SIZE = 128
"""What an axis without a fixed size counts in estimates."""

Tensors = dict[str, Any]
"""Tensors of one example or of a batch of them, by name, as tf.data wants them."""


@frozen
class StreamOptions:
    """How a split is to be read."""

    base: Path = field(converter=Path)  # the folder of the spec, from which relative paths start
    # Makes shuffling repeatable. If it is None, and `deterministic` is false, every stream draws one.
    seed: int | None = None
    deterministic: bool = False  # whether the order of the examples must be the same in every run
    # Whether the examples are for training. If not, shuffles that choose nothing are left out.
    training: bool = True
    # The index of this stream's share and the number of shares; None if it reads everything.
    shard: tuple[int, int] | None = None
    # Who reads this share in words, such as `clone 2`; nothing if it is none. Otherwise a share consists of
    # single records.
    reader: str = ""
    # If each batch of a step is cut into parts, the part of this stream: where it begins in the batch, where
    # it ends, and the examples of the batch. The stream has the same order for all parts.
    window: tuple[int, int, int] | None = None
    # How many examples of this stream were consumed since the start of the run, over all passes. They are
    # skipped.
    skip_examples: int = 0


@frozen
class Field:
    """A tensor of every example, as a source gives it or as an input of the model wants it."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]  # its shape without the batch axis; None for an axis without a fixed size
    ragged: bool = False  # whether the sizes of such axes can differ among the examples of a batch
    # Of an input, the shape with the sizes that forecasts assume for such axes; empty if they are not known.
    assumed: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """Dtype and shape as the language writes them."""
        return f"{self.dtype}[{', '.join('none' if each is None else str(each) for each in self.shape)}]"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of its axes, without those that have no fixed size."""
        return tuple(each for each in self.shape if each is not None)

    @property
    def numbers(self) -> int:
        """How many numbers it has, roughly if it has axes without a fixed size."""
        return prod(ROUGH_SIZE if each is None else each for each in self.shape)


BITS = (8, 16, 32, 64)
BOUNDS = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in BITS},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in BITS},
    "bool": (0, 1),
}
"""The least and the greatest number of each dtype of whole numbers."""

INTEGERS = frozenset(BOUNDS) - {"bool"}
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
DTYPES = INTEGERS | FLOATS | {"bool"}
"""The dtypes that numbers can be turned into."""


_FUNCTIONS = {each.name: each for each in (*SOURCES, *TRANSFORMS, *FEATURES, *LENGTHS)}


@frozen
class Arguments:
    """The arguments of a source or transform."""

    call: ir.Call
    values: Mapping[str, Any]  # the values of its arguments by name, defaults included
    others: Mapping[str, Any]  # the values of further keyword arguments by name
    # Where each argument is written, by name; an argument with its default has none.
    spans: Mapping[str, Span]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def span(self, name: str | None = None) -> Span | None:
        """Return the place of argument `name` in the spec, else that of the whole call."""
        return self.spans.get(name or "", self.call.span)

    def refuse(self, reason: str, name: str | None = None, advice: str | None = None) -> NoReturn:
        """Raise the SpecError of an argument that cannot be used.

        Args:
            reason: What is wrong, as the end of a sentence about the transform.
            name: The argument, whose place is shown; None shows the whole call.
        """
        raise SpecError(
            [errors.bad_argument(self.span(name), call=self.call.name, reason=reason, advice=advice)]
        )

    def texts(self, name: str) -> tuple[str, ...]:
        """Return argument `name`, a text or a list of texts, as a list, which is not empty."""
        value = self.values[name] if name in self.values else self.others[name]
        texts = value if isinstance(value, tuple) else (value,)
        return texts or self.refuse(f"takes a string or a list of strings as `{name}`", name)

    def pair(self, name: str) -> tuple[int, int]:
        """Return argument `name`, a height and a width."""
        if len(self.values[name]) != 2:  # noqa: PLR2004 height and width
            reason = f"takes a height and a width as `{name}`"
            self.refuse(reason, name, "write `[height, width]`")
        height, width = self.values[name]
        return height, width

    def tensor(self, name: str, tensors: Mapping[str, Field], argument: str = "name") -> Field:
        """Return the tensor that an argument names; raises SpecError if there is none."""
        if name not in tensors:
            raise SpecError([errors.unknown_tensor(self.span(argument), name=name, known=list(tensors))])
        return tensors[name]


def bind(call: ir.Call) -> Arguments:
    """Return the arguments of a call by the table of the language that describes its function."""
    function = _FUNCTIONS[call.name]
    names = [each.name for each in function.positional]
    given = dict(zip(names, call.args, strict=False)) | dict(call.kwargs)
    values = {each.name: given.get(each.name, each.default) for each in function.arguments}
    others = {name: value for name, value in given.items() if name not in values}
    spans = dict(zip(names, call.arg_spans, strict=False)) | dict(call.kwarg_spans)
    return Arguments(call, values, others, spans)


@frozen
class Feature:
    """A tensor that the spec describes."""

    field: Field
    key: str  # its name in the file
    encoding: str  # how its numbers are written: `list`, `raw` or `image`
    resize: str  # how images are brought to the size of the shape
    classes: int | None  # the number of classes of whole numbers; None if it is not given
    span: Span | None


def features(given: Arguments) -> Mapping[str, Feature]:
    """Return the features that the keywords of a source describe, by tensor; raises SpecError."""
    if not given.others:
        given.refuse("names no tensor", advice="write `name = feature(dtype, [shape])`")
    return {name: read_feature(name, call) for name, call in given.others.items()}


def read_feature(name: str, call: ir.Call) -> Feature:
    """Return what `feature(...)` says about a tensor; raises SpecError."""
    given = bind(call)
    encoding, dtype, shape, classes = (given[each] for each in ("encoding", "dtype", "shape", "classes"))
    if classes is not None and dtype not in INTEGERS:
        given.refuse(f"has classes only with whole numbers, not {dtype}", "classes")
    if classes is not None and classes - 1 > BOUNDS[dtype][1]:
        given.refuse(f"has more classes than {dtype} has numbers", "classes")
    if None in shape and (encoding != "list" or None in shape[1:]):
        given.refuse("can have `none` for the first axis only, and not with `encoding`", "shape")
    if encoding == "image" and (len(shape) != 3 or shape[-1] not in (1, 3, 4)):  # noqa: PLR2004 height, width, channels
        given.refuse("needs height, width and 1, 3 or 4 channels for an image", "shape")
    if encoding != "image" and given["resize"] is not None:
        given.refuse("has `resize` only with `encoding = image`", "resize")
    key = name if given["key"] is None else given["key"]
    field = Field(name, dtype, shape, ragged=None in shape)
    return Feature(field, key, encoding, given["resize"] or RESIZES[0], classes, call.span)
