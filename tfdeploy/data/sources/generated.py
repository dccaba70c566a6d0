"""Examples without files: those that a Python function of the user's gives, and random numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import count
from typing import Any
from zlib import crc32

import numpy as np
import tensorflow as tf

from compiler.graph.session_options import helper_config
from compiler.graph.user_code import failure, load_function, without_exit
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data.arguments import BOUNDS, DTYPES, FLOATS, ROUGH_SIZE, Feature, Field, Tensors, features
from tfdeploy.data.sources.base import Asked, Context, PythonOnly, Source

ADVICE = "return a tf.data.Dataset of dicts, or yield dicts of arrays"
_END: Any = object()
"""What stands behind the last example, as None may be one by mistake."""


class Python(Source):
    """Examples of a function that returns a tf.data.Dataset or anything that gives dicts of arrays.

    The function is called for every pass, and once before to see what it gives.
    """

    finite = False
    unrepeatable = True
    gives_tensors = True

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.path: str = self.given["function"]
        self.function: Callable[..., Any] = load_function(
            self.path, context.base, self.given.span("function")
        )
        self.arguments = dict(self.given.others)
        with tf.Graph().as_default(), tf.device("/cpu:0"):
            result = self._call()
            self.is_dataset = isinstance(result, tf.data.Dataset)
            self.fields = self._dataset_fields(result) if self.is_dataset else self._first_fields(result)
            self.length = self._length(result)

    @property
    def needs_python(self) -> PythonOnly:
        """Why Python is needed: even a dataset may contain arrays and functions of Python."""
        advice = "write the examples to files, as TFRecord say, or use `replication = between_graph`"
        return PythonOnly(f"the examples come from the Python function `{self.path}`", advice)

    def _refusal(self, reason: str, place: str = "", advice: str | None = None) -> RunError:
        return RunError(errors.python_function(self.at(self.path, place), reason=reason, advice=advice))

    def _call(self) -> Any:
        try:
            with without_exit():
                result = self.function(**self.arguments)
        except Exception as error:
            raise RunError(failure(error, self.at(self.path))) from error
        if not isinstance(result, tf.data.Dataset | Iterable) or isinstance(result, Mapping | str | bytes):
            raise self._refusal(f"gives a {type(result).__name__}", advice=ADVICE)
        if isinstance(result, tf.data.Dataset):
            made_in = getattr(tf.data.experimental.to_variant(result), "graph", None)  # none if in eager mode
            if made_in is not tf.compat.v1.get_default_graph():
                reason = "gives a dataset that was made before, and works nowhere else"
                raise self._refusal(reason, advice="make a dataset in each call")
        return result

    def _dataset_fields(self, dataset: Any) -> tuple[Field, ...]:
        spec = dataset.element_spec
        if not isinstance(spec, dict) or not spec:
            raise self._refusal("its dataset does not hold dicts of named tensors", advice=ADVICE)
        fields = []
        for name, each in spec.items():
            free = self.context.free.get(str(name), frozenset())
            ranked = isinstance(each, tf.TensorSpec) and each.shape.rank is not None
            known = ranked and all(size is not None or at in free for at, size in enumerate(each.shape))
            if not known or each.dtype.name not in {*DTYPES, "string"}:
                reason = f"`{name}` in its dataset is {each}, not a tensor of known dtype and shape"
                advice = "give it a shape with tf.ensure_shape"
                if ranked:
                    advice += f", or fill its examples up: `-> pad({name})`"
                raise self._refusal(reason, advice=advice)
            fields.append(
                Field(str(name), each.dtype.name, tuple(each.shape), ragged=None in tuple(each.shape))
            )
        return tuple(fields)

    def _first_fields(self, result: Any) -> tuple[Field, ...]:
        try:
            with without_exit():
                first = next(iter(result), _END)
        except Exception as error:
            raise RunError(failure(error, self.where(0))) from error
        if first is _END:
            raise RunError(errors.empty(self.at(self.path), what="it gives no example"))
        return tuple(self._field(name, value) for name, value in self._arrays(first, 0).items())

    def _field(self, name: str, value: np.ndarray) -> Field:
        """Return what an example has under a name, without the sizes of the axes that `pad` fills."""
        free = self.context.free.get(name, frozenset())
        shape = tuple(None if at in free else size for at, size in enumerate(value.shape))
        return Field(name, value.dtype.name, shape, ragged=None in shape)

    def _arrays(self, example: Any, number: int) -> dict[str, np.ndarray]:
        place = f"example {number}"
        if not isinstance(example, Mapping) or not example:
            raise self._refusal(f"is a {type(example).__name__}, not a dict of arrays", place, ADVICE)
        arrays = {}
        for name, value in example.items():
            if tf.is_tensor(value):
                raise self._refusal(f"`{name}` is a tensor of TensorFlow, not an array", place, ADVICE)
            try:
                array = np.asarray(value)
            except Exception as error:
                reason = str(error).partition(". ")[0]
                raise self._refusal(f"`{name}` is no array: {reason}", place) from error
            if array.dtype.name not in DTYPES:
                raise self._refusal(f"`{name}` holds {array.dtype}, not numbers", place)
            arrays[str(name)] = array
        return arrays

    def _length(self, result: Any) -> int | None:
        if not self.is_dataset:
            return len(result) if isinstance(result, Sized) else None
        with tf.compat.v1.Session(config=helper_config()) as session:
            known = int(session.run(tf.data.experimental.cardinality(result)))
        return known if known >= 0 else None

    def records(self) -> Any:
        """Return the examples."""
        if self.is_dataset:
            return self._call()
        signature = {each.name: tf.TensorSpec(each.shape, each.dtype) for each in self.fields}
        return tf.data.Dataset.from_generator(
            lambda: self.noting(self._examples()), output_signature=signature
        )

    def _examples(self) -> Iterator[dict[str, np.ndarray]]:
        examples = iter(self._call())
        for number in count():
            asked = Asked(f"example {number} of `{self.path}`", self.reader, time.monotonic())
            self.asked.append(asked)
            try:
                with without_exit():
                    example = next(examples, _END)
            except Exception as error:
                raise RunError(failure(error, self.where(number))) from error
            finally:
                self.asked.remove(asked)
            if example is _END:
                if number == 0:
                    # Otherwise empty passes would be repeated for ever.
                    raise self._refusal("gives no example when it is called again")
                return
            arrays = self._arrays(example, number)
            self._compare(arrays, number)
            yield arrays

    def _compare(self, arrays: Mapping[str, np.ndarray], number: int) -> None:
        place = f"example {number}"
        for field in self.fields:
            if field.name not in arrays:
                raise self._refusal(f"lacks `{field.name}`, which the first one has", place)
            found = self._field(field.name, arrays[field.name])
            if found != field:
                reason = f"`{field.name}` is {found.words}, and {field.words} in the first one"
                longer = found.dtype == field.dtype and len(found.shape) == len(field.shape)
                advice = f"if examples have different lengths, fill them up: `-> pad({field.name})`"
                raise self._refusal(reason, place, advice if longer else None)
        if len(arrays) > len(self.fields):
            extra = next(name for name in arrays if name not in {each.name for each in self.fields})
            raise self._refusal(f"has `{extra}`, which the first one lacks", place)

    def words_for(self, name: str) -> str:
        """Return the name of an array."""
        return f"`{name}`"

    def where(self, index: int) -> Where:
        """Return the number of the example."""
        return self.at(self.path, f"example {index}")

    def fault_of_all(self, reason: str) -> Diagnostic:
        """Return the diagnostic about the dataset of the function."""
        return self._refusal(f"its dataset fails: {reason}").diagnostic

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Return the diagnostic that was stored when the function failed."""
        return self.failures[0] if self.failures else super().fault(index, reason)


# --- random numbers ---------------------------------------------------------------------------------------

LARGEST = 255
SIZES = crc32(b"sizes of free axes")


class Synthetic(Source):
    """`count` examples that are the same in every pass and every run with the same seed.

    Floats are uniform from 0 to 1, whole numbers from 0 to below `classes`, or to 255 without those. A first
    axis without a fixed size has a random size, from 1 to that of the input, or to the one that forecasts
    assume for it. Tensors with the same largest size have the same size in each example.
    """

    per_record = True  # so that an example does not depend on its neighbours

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        self.length: int = self.given["count"]
        self.seed: int = self.given["seed"]
        self.features = features(self.given)
        for each in self.features.values():
            if each.field.dtype == "string":
                self.given.refuse("makes numbers, no text", each.field.name)
        self.fields = tuple(each.field for each in self.features.values())

    def records(self) -> Any:
        """Return the numbers of the examples."""
        return tf.data.Dataset.range(self.length)

    def decode(self, record: Any) -> Tensors:
        """Draw one example from its number."""
        return {name: self._draw(each, record) for name, each in self.features.items()}

    def _draw(self, feature: Feature, number: Any) -> Any:
        field = feature.field
        stream = (self.seed * 1_000_003 + crc32(field.name.encode())) % 2**31
        seed = tf.stack([tf.constant(stream, tf.int64), number])
        shape = [self._size(field.name, number) if each is None else each for each in field.shape]
        if field.dtype in FLOATS:
            drawn = tf.random.stateless_uniform(shape, seed, dtype=field.dtype)
        else:
            below = feature.classes or min(BOUNDS[field.dtype][1], LARGEST) + 1
            drawn = tf.cast(tf.random.stateless_uniform(shape, seed, 0, below, tf.int64), field.dtype)
        return tf.ensure_shape(drawn, field.shape)

    def _size(self, name: str, number: Any) -> Any:
        """Return the size of an axis without a fixed size in an example; an int32 scalar."""
        seed = tf.stack([tf.constant((self.seed * 1_000_003 + SIZES) % 2**31, tf.int64), number])
        part = tf.random.stateless_uniform((), seed, dtype=tf.float64)
        longest = self.context.longest.get(name, ROUGH_SIZE)
        return 1 + tf.minimum(tf.cast(part * longest, tf.int32), longest - 1)
