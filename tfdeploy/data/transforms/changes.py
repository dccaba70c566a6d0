"""The transforms of `data` that change tensors, also those for examples of different lengths.

Each treats every example alike and by itself, so it may as well be applied to a whole batch after
shuffling: `apply` takes tensors with a batch axis. Until `pad`, a batch of tensors with different lengths
is a ragged tensor of TensorFlow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from attrs import evolve

from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data.arguments import BOUNDS, DTYPES, FLOATS, INTEGERS, Field, Tensors, bind


def checked_cast(tensor: Any, name: str, dtype: str) -> Any:
    """Cast `tensor` to `dtype`; a number that is not finite, or that does not fit, is an error.

    Args:
        tensor: The tensor, of any shape.
        name: Its name, for the message of the error.
        dtype: The name of the dtype.
    """
    if dtype == "string" or (tensor.dtype.name == dtype and dtype not in FLOATS):
        return tensor
    if dtype in FLOATS:
        return tf.debugging.check_numerics(tf.cast(tensor, dtype), f"`{name}` is not finite")
    low, high = BOUNDS[dtype]
    if tensor.dtype.is_floating:  # both bounds are exact in it, or infinite
        whole = tf.math.floor(tf.abs(tensor)) * tf.sign(tensor)
        above = whole < tf.cast(float(high + 1), tensor.dtype)
        fits = tf.reduce_all(tf.logical_and(whole >= tf.cast(float(low), tensor.dtype), above))
        with tf.control_dependencies([tf.debugging.Assert(fits, [f"`{name}` is outside {dtype}"])]):
            return tf.cast(tensor, dtype)
    least, greatest = max(low, tensor.dtype.min), min(high, tensor.dtype.max)
    fits = tf.logical_and(tensor >= least, tensor <= greatest)
    if tensor.shape.rank != 0:  # for one number this would be two ops, as much as the cast itself
        fits = tf.reduce_all(fits)
    with tf.control_dependencies([tf.debugging.Assert(fits, [f"`{name}` is outside {dtype}"])]):
        return tf.cast(tensor, dtype)


Fields = dict[str, Field]


class Transform:
    """A transform of `data`. Making one checks its arguments; raises SpecError."""

    def __init__(self, call: ir.Call) -> None:
        self.call = call
        self.given = bind(call)

    def refuse(self, reason: str, advice: str | None = None) -> SpecError:
        """Return the error of a transform that does not fit its tensor.

        Args:
            reason: What does not fit, as a sentence.
            advice: What to write instead, if that is known.
        """
        return SpecError(
            [errors.bad_transform(self.call.span, transform=self.call.name, reason=reason, advice=advice)]
        )


class Change(Transform, ABC):
    """A transform that changes tensors."""

    moves_only: ClassVar[bool] = False
    """Whether numbers only change their places, so that what they are cast to next may be done before."""

    def require_fixed(self, tensor: Field) -> None:
        """Raise SpecError if a tensor has an axis without a fixed size."""
        if None in tensor.shape:
            advice = f"put `-> pad({tensor.name}, to = SIZE)` before it"
            raise self.refuse(f"`{tensor.name}` is {tensor.words}, which has no fixed size", advice)

    @abstractmethod
    def fields(self, before: Fields) -> Fields:
        """Return the tensors after the change, given those before it; raises SpecError if they do not fit."""

    @abstractmethod
    def apply(self, tensors: Tensors) -> Tensors:
        """Change a batch of examples, in which tensors that feed no input may be missing."""

    def fault(self, where: Where, values: Mapping[str, np.ndarray]) -> Diagnostic | None:  # noqa: ARG002 most accept all
        """Return the diagnostic about an example that it refuses; None if it accepts the example.

        Args:
            where: The place of the example in its source.
            values: The tensors of the example before the change, as a batch of one, by their names.
        """
        return None


class OneTensor(Change):
    """A change of the tensor that the argument `name` names, or of each of those."""

    single_numbers: ClassVar[bool] = False
    """Whether each number is changed by itself, so that axes without a fixed size do not matter."""

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.names = self.given.texts("name")
        self.name = self.names[0]

    @abstractmethod
    def after(self, before: Field) -> Field:
        """Return the tensor after the change; raises SpecError if it does not fit."""

    @abstractmethod
    def change(self, tensor: Any) -> Any:
        """Return the batch of tensors after it."""

    def fields(self, before: Fields) -> Fields:
        """Return the examples with the tensors changed; raises SpecError for a name that is none."""
        found = {name: self.given.tensor(name, before) for name in self.names}
        for each in found.values() if not self.single_numbers else ():
            self.require_fixed(each)
        return {**before, **{name: self.after(each) for name, each in found.items()}}

    def apply(self, tensors: Tensors) -> Tensors:
        """Change the tensors that are there."""
        return {
            **tensors,
            **{name: self._changed(tensors[name]) for name in self.names if name in tensors},
        }

    def _changed(self, tensor: Any) -> Any:
        if isinstance(tensor, tf.RaggedTensor):
            return tf.ragged.map_flat_values(self.change, tensor)
        return self.change(tensor)


class Scale(OneTensor):
    """`scale(name, factor, offset)`: x * factor + offset, for floating-point tensors."""

    single_numbers = True

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.factor: float = self.given["factor"]
        self.offset: float = self.given["offset"]

    def after(self, before: Field) -> Field:
        """Return the same dtype and shape."""
        if before.dtype not in FLOATS:
            advice = f"put `-> cast({self.name}, float32)` before it"
            raise self.refuse(f"`{self.name}` is {before.dtype}, not a floating-point dtype", advice)
        return before

    def change(self, tensor: Any) -> Any:
        """Multiply and add in the tensor's own dtype."""
        scaled = tensor if self.factor == 1 else tensor * tf.constant(self.factor, tensor.dtype)
        return scaled if self.offset == 0 else scaled + tf.constant(self.offset, tensor.dtype)


class Reshape(OneTensor):
    """`reshape(name, [shape])`: the same numbers in another shape."""

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.shape: tuple[int, ...] = self.given["shape"]

    def after(self, before: Field) -> Field:
        """Return the new shape, which must hold as many numbers."""
        size = before.numbers
        if size != prod(self.shape):
            reason = f"`{self.name}` is {before.words}, {size} numbers, which do not fill {list(self.shape)}"
            raise self.refuse(reason)
        return evolve(before, shape=self.shape)

    def change(self, tensor: Any) -> Any:
        """Reshape all but the batch axis."""
        batch = tensor.shape[0] if tensor.shape[0] is not None else -1
        return tf.reshape(tensor, [batch, *self.shape])


class Cast(OneTensor):
    """`cast(name, dtype)`: the numbers in another dtype; casting to whole numbers cuts off fractions."""

    single_numbers = True

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.dtype: str = self.given["dtype"]
        if self.dtype not in DTYPES:
            known = ", ".join(f"`{each}`" for each in sorted(DTYPES))
            self.given.refuse(f"takes one of {known} as `dtype`", "dtype")

    def after(self, before: Field) -> Field:
        """Return the new dtype."""
        if before.dtype == "string":
            raise self.refuse(f"`{self.name}` is text")
        return evolve(before, dtype=self.dtype)

    def change(self, tensor: Any) -> Any:
        """Cast as TensorFlow does, but fail on a number that is outside a dtype of whole numbers."""
        low, high = BOUNDS.get(tensor.dtype.name, (-math.inf, math.inf))
        least, greatest = BOUNDS.get(self.dtype, (low, high))
        if self.dtype == "bool" or (least <= low and high <= greatest):
            return tf.cast(tensor, self.dtype)
        return checked_cast(tensor, self.name, self.dtype)

    def fault(self, where: Where, values: Mapping[str, np.ndarray]) -> Diagnostic | None:
        """Return the diagnostic about a number that is outside the new dtype."""
        low, high = BOUNDS.get(self.dtype, (-math.inf, math.inf))
        for number in values[self.name].reshape(-1).tolist() if self.name in values else ():
            if self.dtype in INTEGERS and not (math.isfinite(number) and low <= int(number) <= high):
                reason = f"in `{self.name}` is outside {self.dtype}, which holds {low} to {high}"
                return errors.out_of_range(where, value=str(number), reason=reason)
        return None


class OneHot(OneTensor):
    """`one_hot(name, classes)`: a whole number from 0 as a float32 vector with a single 1."""

    single_numbers = True

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.classes: int = self.given["classes"]

    def after(self, before: Field) -> Field:
        """Return the shape with one more axis, as float32."""
        if before.dtype not in INTEGERS:
            advice = f"put `-> cast({self.name}, int32)` before it"
            raise self.refuse(f"`{self.name}` is {before.dtype}, not a dtype of whole numbers", advice)
        return evolve(before, dtype="float32", shape=(*before.shape, self.classes))

    def change(self, tensor: Any) -> Any:
        """Encode, failing on a number that is no class."""
        numbers = tf.cast(tensor, tf.int64)
        known = tf.reduce_all(tf.logical_and(numbers >= 0, numbers < self.classes))
        with tf.control_dependencies([tf.debugging.Assert(known, [f"`{self.name}` is no class"])]):
            return tf.one_hot(numbers, self.classes, dtype=tf.float32)

    def fault(self, where: Where, values: Mapping[str, np.ndarray]) -> Diagnostic | None:
        """Return the diagnostic about a number that is no class."""
        numbers = values[self.name].reshape(-1) if self.name in values else ()
        for number in numbers:
            if not 0 <= number < self.classes:
                reason = (
                    f"in `{self.name}` is no class of `{self.call.name}`, which knows 0 to {self.classes - 1}"
                )
                return errors.out_of_range(where, value=str(number), reason=reason)
        return None


class Rename(Change):
    """`rename(new = old, ...)`: tensors under other names."""

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.names: Mapping[str, str] = self.given.others
        if not self.names:
            self.given.refuse("names nothing", advice="write `new = old`")

    def fields(self, before: Fields) -> Fields:
        """Return the examples with their new names in the old order."""
        for new, old in self.names.items():
            self.given.tensor(old, before, new)
        after = {self.after(name): evolve(each, name=self.after(name)) for name, each in before.items()}
        if len(after) < len(before):
            raise self.refuse("two tensors would bear the same name")
        return after

    def after(self, name: str) -> str:
        """Return the name that a tensor has after the change."""
        return next((new for new, old in self.names.items() if old == name), name)

    def apply(self, tensors: Tensors) -> Tensors:
        """Rename the tensors."""
        return {self.after(name): tensor for name, tensor in tensors.items()}


class Pad(Change):
    """`pad(names, to, value, truncate)`: tensors filled up behind, so that a batch has one size.

    Attributes:
        names: The tensors.
        size: The size to which free axes are filled, or None for that of the longest example of the batch.
        multiple: The number of which that size is to be a multiple.
    """

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.names = self.given.texts("name")
        self.value: float = self.given["value"]
        self.truncate: bool = self.given["truncate"]
        to = self.given["to"]
        self.size: int | None = None if isinstance(to, ir.Call) else to
        self.multiple: int = bind(to)["n"] if isinstance(to, ir.Call) else 1
        if self.truncate and self.size is None:
            self.given.refuse("cuts off only what is longer than a number given as `to`", "truncate")

    def fields(self, before: Fields) -> Fields:
        """Return the tensors filled up; raises SpecError for names that are none, or have no free axis."""
        return {**before, **{name: self._after(name, before) for name in self.names}}

    def _after(self, name: str, before: Fields) -> Field:
        found = self.given.tensor(name, before)
        if None not in found.shape:
            reason = f"`{name}` is {found.words}, which has a fixed size"
            raise self.refuse(reason, "leave it out")
        if found.dtype in BOUNDS:
            low, high = BOUNDS[found.dtype]
            if int(self.value) != self.value or not low <= self.value <= high:
                self.given.refuse(f"cannot fill `{name}`, which is {found.words}, with {self.value}", "value")
        shape = tuple(self.size if each is None else each for each in found.shape)
        return evolve(found, shape=shape, ragged=False)

    def apply(self, tensors: Tensors) -> Tensors:
        """Fill the tensors that are there."""
        filled = {name: self._filled(name, tensors[name]) for name in self.names if name in tensors}
        return {**tensors, **filled}

    def _filled(self, name: str, tensor: Any) -> Any:
        value = "" if tensor.dtype == tf.string else tf.cast(self.value, tensor.dtype)
        free = [at for at, size in enumerate(tensor.shape) if at and size is None]
        dense = tensor.to_tensor(value) if isinstance(tensor, tf.RaggedTensor) else tensor
        sizes, wanted = tf.shape(dense), list(tf.unstack(tf.shape(dense)))
        for axis in free:
            wanted[axis] = (
                tf.constant(self.size)
                if self.size is not None
                else -(-tf.maximum(sizes[axis], 1) // self.multiple) * self.multiple
            )
        if self.truncate:
            dense = tf.slice(dense, tf.zeros_like(sizes), tf.minimum(sizes, tf.stack(wanted)))
        elif self.size is not None:
            fits = tf.reduce_all(sizes <= tf.stack(wanted))
            with tf.control_dependencies([tf.debugging.Assert(fits, [f"`{name}` is longer than `to`"])]):
                dense = tf.identity(dense)
        more = tf.stack(wanted) - tf.shape(dense)
        filled = tf.pad(dense, tf.stack([tf.zeros_like(more), more], 1), constant_values=value)
        filled.set_shape([self.size if at in free else size for at, size in enumerate(tensor.shape)])
        return filled

    def fault(self, where: Where, values: Mapping[str, np.ndarray]) -> Diagnostic | None:
        """Return the diagnostic about an example that is too long."""
        for name in self.names:
            longest = max(values[name].shape[1:], default=0) if name in values else 0
            if self.size is not None and longest > self.size and not self.truncate:
                return errors.wrong_shape(
                    where,
                    found=f"a size of {longest} in `{name}`",
                    wanted=f"at most {self.size}, the `to` of `pad`",
                    advice="give a larger `to`, or add `truncate = true` to cut off what is longer",
                )
        return None


class Bucket(Transform):
    """`bucket(name, boundaries)`: examples of about the same length one after the other.

    Attributes:
        call: The call in the spec.
        name: The tensor whose length counts.
        boundaries: The largest lengths of the groups but the last.
    """

    def __init__(self, call: ir.Call) -> None:
        super().__init__(call)
        self.name: str = self.given["name"]
        self.boundaries: tuple[int, ...] = self.given["boundaries"]
        if not self.boundaries or list(self.boundaries) != sorted(set(self.boundaries)):
            self.given.refuse("takes lengths in ascending order as `boundaries`", "boundaries")

    def require_lengths(self, fields: Fields) -> None:
        """Raise SpecError if the examples have no such tensor, or if its length is fixed."""
        found = self.given.tensor(self.name, fields)
        if not found.shape or found.shape[0] is not None or not found.ragged:
            reason = f"`{self.name}` is {found.words}, and all examples have the same length here"
            advice = "put it before `pad`" if found.shape and found.shape[0] is None else "leave it out"
            raise self.refuse(reason, advice)

    def group(self, length: Any) -> Any:
        """Return the number of the group of each length, as int64 tensors."""
        boundaries = tf.constant(self.boundaries, tf.int64)
        return tf.reduce_sum(tf.cast(tf.cast(length, tf.int64)[..., None] > boundaries, tf.int64), -1)
