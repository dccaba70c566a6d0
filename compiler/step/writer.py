"""The writer of steps: ops by what they do, under the names that they have in every graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from compiler.reasons import Placed
from compiler.step.record import Op, Role, Rows, Tensor, Value
from compiler.step.types import TYPES


@define
class Names:
    """Names that are given once; a name that is there already gets a number, as in TensorFlow's graphs."""

    _used: set[str] = field(factory=set, repr=False)

    def __call__(self, name: str) -> str:
        """Return a name that was not returned before: the wanted one, or one with a number after it."""
        found, number = name, 0
        while found.lower() in self._used:
            number += 1
            found = f"{name}_{number}"
        self._used.add(found.lower())
        return found


@define
class StepWriter:
    """Writes ops, and keeps them in their order until a reader takes them.

    Attributes:
        role: What the ops are for.
        unique: Gives names, each once.
        clone: The number of the clone that the ops belong to, or None.
        ops: The ops that have been written.
    """

    role: Role
    unique: Callable[[str], str] = field(factory=Names, repr=False)
    clone: int | None = None
    ops: list[Op] = field(factory=list, repr=False)
    _counts: dict[str, int] = field(factory=dict, repr=False)

    def next_number(self, of: str) -> int:
        """Return how many numbers have been asked for under a name, this one included."""
        self._counts[of] = self._counts.get(of, 0) + 1
        return self._counts[of]

    def take(self) -> list[Op]:
        """Return the ops that have been written since the last call."""
        taken, self.ops = self.ops, []
        return taken

    def write(
        self,
        kind: str,
        name: str,
        inputs: Iterable[Tensor],
        placed: Placed,
        attributes: Mapping[str, Any] | None = None,
        waits: Iterable[str] = (),
    ) -> tuple[Tensor, ...]:
        """Write an op whose name no other op has; return what it makes.

        Args:
            kind: Its type.
            name: Its name.
            inputs: What it takes.
            placed: Its place.
            attributes: Those of its attributes that do not follow from its inputs, and are no defaults.
            waits: The names of the ops that it waits for besides.
        """
        taken, given = tuple(inputs), attributes or {}
        value = given.get("value")
        made = TYPES[kind](taken, given)
        outputs = tuple(Tensor(name, dtype, shape, at, value) for at, (dtype, shape) in enumerate(made))
        self.ops.append(Op(name, kind, taken, placed, self.role, outputs, given, tuple(waits), self.clone))
        return outputs

    def constant(self, name: str, value: Any, dtype: str, placed: Placed) -> Tensor:
        """Write a constant: a number, or a list of numbers.

        Args:
            name: Its name.
            value: Its elements.
            dtype: Their type.
            placed: Its place.
        """
        shape = (len(value),) if isinstance(value, Sequence) else ()
        given = {"value": value, "dtype": dtype, "shape": shape}
        return self.write("Const", name, (), placed, given)[0]

    def add(self, name: str, values: Sequence[Tensor], placed: Placed) -> Tensor:
        """Write the sum of tensors of one shape.

        Args:
            name: The name of the op.
            values: The tensors.
            placed: The place of the sum.
        """
        return self.write("AddN", self.unique(name), values, placed)[0]

    def copy(self, name: str, value: Value, placed: Placed) -> Value:
        """Write a copy of a tensor, or of rows and their numbers.

        Args:
            name: The name of the op.
            value: What is copied.
            placed: The place of the copy.
        """
        if isinstance(value, Rows):
            values, indices = (self._copy(name, each, placed) for each in (value.values, value.indices))
            return Rows(values, indices)
        return self._copy(name, value, placed)

    def _copy(self, name: str, value: Tensor, placed: Placed) -> Tensor:
        return self.write("Identity", self.unique(name), (value,), placed)[0]

    def reshape(self, name: str, value: Tensor, shape: Sequence[int], placed: Placed) -> Tensor:
        """Write a tensor with the elements of another one.

        Args:
            name: The name of the op.
            value: The other tensor.
            shape: The shape; -1 for an axis that has the rest of the elements.
            placed: The place of the op.
        """
        own = self.unique(name)
        wanted = self.constant(f"{own}/shape", list(shape), "int32", placed)
        return self.write("Reshape", own, (value, wanted), placed)[0]

    def concat(self, name: str, values: Sequence[Tensor], axis: int, placed: Placed) -> Tensor:
        """Write tensors one after another as one.

        Args:
            name: The name of the op.
            values: The tensors, two at least.
            axis: The axis along which they are joined.
            placed: The place of the op.
        """
        own = self.unique(name)
        along = self.constant(f"{own}/axis", axis, "int32", placed)
        return self.write("ConcatV2", own, (*values, along), placed)[0]

    def split(
        self, name: str, value: Tensor, sizes: Sequence[int], axis: int, placed: Placed
    ) -> tuple[Tensor, ...]:
        """Write the parts of a tensor.

        Args:
            name: The name of the op, whose last level is its own and the others its scope.
            value: The tensor.
            sizes: The sizes of the parts along the axis.
            axis: The axis.
            placed: The place of the op.
        """
        lengths = self.constant(self.unique(f"{name.rpartition('/')[0]}/Const"), list(sizes), "int32", placed)
        own = self.unique(name)
        along = self.constant(f"{own}/split_dim", axis, "int32", placed)
        return self.write("SplitV", own, (value, lengths, along), placed, {"num_split": len(sizes)})

    def cast(self, name: str, value: Tensor, dtype: str, placed: Placed) -> Tensor:
        """Write a tensor with elements of another type; one of the type already is returned as it is.

        Args:
            name: The name of the op.
            value: The tensor.
            dtype: The type.
            placed: The place of the op.
        """
        if value.dtype == dtype:
            return value
        return self.write("Cast", self.unique(name), (value,), placed, {"DstT": dtype})[0]

    def element(self, name: str, value: Tensor, at: int, placed: Placed) -> Tensor:
        """Write one element of a list of numbers.

        Args:
            name: The name of the op.
            value: The list.
            at: The number of the element.
            placed: The place of the op.
        """
        own = self.unique(name)
        ends = {"stack": at, "stack_1": at + 1, "stack_2": 1}
        taken = [self.constant(f"{own}/{end}", [to], "int32", placed) for end, to in ends.items()]
        return self.write("StridedSlice", own, (value, *taken), placed, {"shrink_axis_mask": 1})[0]
