"""The transforms of `data` for examples of different lengths.

Until `pad`, a batch of tensors with different lengths is a ragged tensor of TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import evolve

from dsl import ir
from dsl.errors import data as errors
from tfdeploy.data.options import BOUNDS
from tfdeploy.data.transforms.arguments import bind
from tfdeploy.data.transforms.changes import Change, Transform

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from dsl.diagnostics import Diagnostic
    from dsl.errors.data import Where
    from tfdeploy.data.options import Field, Tensors
    from tfdeploy.data.transforms.changes import Fields


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
