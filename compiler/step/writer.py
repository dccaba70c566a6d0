"""The writer of steps: ops by what they do, under the names that they have in every graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

from attrs import define, evolve, field, frozen

from compiler.reasons import Placed
from compiler.step.record import Fragment, Made, Op, Role, Rows, Shape, Tensor, Use, Value
from compiler.step.types import TYPES


@define
class Names:
    """Names that are given once; a name that is there already gets a number, as in TensorFlow's graphs."""

    _used: set[str] = field(factory=set, repr=False)
    _last: dict[str, int] = field(factory=dict, repr=False)  # the last number that was given to each name

    def __call__(self, name: str) -> str:
        """Return a name that was not returned before: the wanted one, or one with a number after it."""
        known, used = name.lower(), self._used
        if known not in used:
            used.add(known)
            return name
        number = self._last.get(known, 0) + 1
        while (numbered := f"{known}_{number}") in used:
            number += 1
        self._last[known] = number
        used.add(numbered)
        return f"{name}_{number}"

    def reserve(self, names: Iterable[str]) -> None:
        """Let others get no names that something has without having asked for them."""
        self._used.update(map(str.lower, names))


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
    ops: list[Op | Use] = field(factory=list, repr=False)
    # The constants that any may take, by what they are for, where they are, and what they are.
    constants: dict[Any, Tensor] = field(factory=dict, repr=False)
    _counts: dict[str, int] = field(factory=dict, repr=False)
    _after: tuple[tuple[Sequence[str], set[str]], ...] = field(default=(), repr=False)

    def next_number(self, of: str) -> int:
        """Return how many numbers have been asked for under a name, this one included."""
        self._counts[of] = self._counts.get(of, 0) + 1
        return self._counts[of]

    def take(self) -> list[Op | Use]:
        """Return the ops that have been written since the last call."""
        taken = [*self.ops]
        self.ops.clear()
        return taken

    def write(
        self,
        kind: str,
        name: str,
        inputs: Iterable[Tensor],
        placed: Placed,
        attributes: Mapping[str, Any] | None = None,
        waits: Iterable[str] = (),
        role: Role | None = None,
        *,
        made: Made | None = None,
        holds: tuple[str, Shape] | None = None,
    ) -> tuple[Tensor, ...]:
        """Write an op whose name no other op has; return what it makes.

        Args:
            kind: Its type.
            name: Its name.
            inputs: What it takes.
            placed: Its place.
            attributes: Those of its attributes that do not follow from its inputs, and are no defaults.
            waits: The names of the ops that it waits for besides.
            role: What it is for, if not for what the others are.
            made: What it makes, if its inputs do not tell.
            holds: The type and shape of what is in the variable, if it is the handle of one.
        """
        taken, given = tuple(inputs), _NONE if attributes is None else attributes
        value = given.get("value")
        if made is None:
            made = TYPES[kind](taken, given)
        outputs: tuple[Tensor, ...]
        if len(made) == 1:  # as most ops have, which take half of the time so
            outputs = (Tensor(name, *made[0], 0, value, holds),)
        else:
            outputs = tuple([Tensor(name, *each, at, value, holds) for at, each in enumerate(made)])
        if self._after:
            waits = [*waits, *self._before([each.op for each in taken])]
            self._begun([name])
        self.ops.append(
            Op(name, kind, taken, placed, role or self.role, outputs, given, tuple(waits), self.clone)
        )
        return outputs

    def use(
        self,
        fragment: Fragment,
        scope: str,
        given: Mapping[str, Tensor],
        placed: Placed,
        waits: Iterable[str] = (),
    ) -> Use:
        """Write all ops of a fragment.

        Args:
            fragment: The fragment.
            scope: What the names of its ops begin with.
            given: What its ops take from elsewhere, by the names that they have for it.
            placed: Their place.
            waits: The names of the ops for which the op that makes the result waits besides.
        """
        under = f"{scope}/" if scope else ""
        below, levels = fragment.below, dict[str, str]()
        for own, asked in fragment.levels.items():
            levels[own] = self._level(f"{under}{asked}", below.get(own, ()))
        names = {own: _under(levels, own) for own in fragment.node}
        ended = {}
        if waits:
            end = (fragment.result or "").partition(":")[0]
            ended = {end: (*fragment.waits_of(end, names, given), *waits)}
        found = Use(fragment, [*names], names, given, placed, self.role, self.clone, ended)
        if self._after:
            before = {own: self._before(found.takes(own)) for own in fragment.first}
            found = evolve(found, waits={own: (*found.waits_of(own), *more) for own, more in before.items()})
            self._begun(names.values())
        self.ops.append(found)
        return found

    def _level(self, asked: str, below: Iterable[str]) -> str:
        """Return a name as `unique` does, with which names `below` it are not there yet either."""
        level = self.unique(asked)
        while any(self.unique(name) != name for name in (f"{level}/{each}" for each in below)):
            level = self.unique(asked)
        return level

    def waiting(self, before: Iterable[str]) -> StepWriter:
        """Return a writer of ops that wait for others, as they do under TensorFlow's `control_dependencies`.

        Of its ops, those do not wait that take something from another of them, which has waited.

        Args:
            before: The names of the ops for which they wait.
        """
        after = (*self._after, ([*before], set[str]()))
        return StepWriter(self.role, self.unique, self.clone, self.ops, self.constants, self._counts, after)

    def _before(self, takes: Sequence[str]) -> list[str]:
        """Return the names of the ops that one waits for which takes something from others."""
        groups = (before for before, begun in self._after if begun.isdisjoint(takes))
        return [each for before in groups for each in before if each not in takes]

    def _begun(self, names: Iterable[str]) -> None:
        for _, begun in self._after:
            begun.update(names)

    def on(self, role: Role, clone: int | None = None) -> StepWriter:
        """Return a writer of ops for something else, which come after those of this one.

        Args:
            role: What they are for.
            clone: The number of the clone that they belong to, or None.
        """
        return StepWriter(role, self.unique, clone, self.ops, self.constants, self._counts, self._after)

    def after(self, name: str, waits: Iterable[str], placed: Placed) -> str:
        """Write an op that only waits; return its name.

        Args:
            name: Its name.
            waits: The names of the ops for which it waits.
            placed: Its place.
        """
        self.write("NoOp", name, (), placed, None, waits)
        return name

    def constant(
        self, name: str, value: Any, dtype: str, placed: Placed, shape: tuple[int, ...] | None = None
    ) -> Tensor:
        """Write a constant: a number, or a list of numbers. One that is on its device already is taken again.

        What gives variables their first values keeps its own, because it moves with the variable.

        Args:
            name: Its name, if it is not there yet.
            value: Its elements, or the number that all of them are.
            dtype: Their type.
            placed: Its place.
            shape: Its shape, if all elements are one number, or if it has more axes than one.
        """
        if shape is None:
            shape = (len(value),) if isinstance(value, Sequence) else ()
        given = {"value": value, "dtype": dtype, "shape": shape}
        if self._after or self.role == "init":
            return self.write("Const", name, (), placed, given)[0]
        what = self.role, self.clone, placed.device, dtype, shape, repr(value)
        if what not in self.constants:
            self.constants[what] = self.write("Const", name, (), placed, given)[0]
        return self.constants[what]

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

    def gather(self, name: str, values: Tensor, places: Tensor, placed: Placed) -> Tensor:
        """Write the gather of values, or rows, at places along the first axis.

        Args:
            name: The name of the op.
            values: The values.
            places: The places.
            placed: The place of the op.
        """
        first = self.constant(f"{name}/first", 0, "int32", placed)
        return self.write("GatherV2", name, (values, places, first), placed)[0]

    # --- numbers of rows ----------------------------------------------------------------------------------

    def element(self, name: str, value: Tensor, at: int, placed: Placed) -> Tensor:
        """Write one element of a list of numbers.

        Args:
            name: The name of the op.
            value: The list.
            at: The number of the element.
            placed: The place of the op.
        """
        return self.part(name, value, at, at + 1, placed, {"shrink_axis_mask": 1})

    def part(
        self,
        name: str,
        value: Tensor,
        start: int,
        stop: int | None,
        placed: Placed,
        attributes: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Write a part of a tensor along its first axis.

        Args:
            name: The name of the op.
            value: The tensor.
            start: The index of its first row.
            stop: The index after that of its last row; None for the end.
            placed: The place of the op.
            attributes: Attributes of the op.
        """
        own, told = self.unique(name), dict(attributes or {})
        if stop is None:
            told["end_mask"] = 1
        ends = {"stack": start, "stack_1": stop or 0, "stack_2": 1}
        taken = [self.constant(f"{own}/{end}", [to], "int32", placed) for end, to in ends.items()]
        return self.write("StridedSlice", own, (value, *taken), placed, told)[0]

    def length(self, scope: str, value: Tensor, placed: Placed) -> Tensor:
        """Write the length of the first axis of a tensor.

        Args:
            scope: The scope of the ops.
            value: The tensor.
            placed: The place of the ops.
        """
        (shape,) = self.write("Shape", self.unique(f"{scope}/Shape"), (value,), placed)
        return self.element(f"{scope}/strided_slice", shape, 0, placed)

    def first(self, name: str, value: Tensor, count: Tensor, placed: Placed) -> Tensor:
        """Write the first rows of a tensor.

        Args:
            name: The name of the op.
            value: The tensor.
            count: How many rows are taken.
            placed: The place of the op.
        """
        own = self.unique(name)
        begin = self.constant(f"{own}/stack", [0], "int32", placed)
        (end,) = self.write("Pack", f"{own}/stack_1", (count,), placed)
        step = self.constant(f"{own}/stack_2", [1], "int32", placed)
        return self.write("StridedSlice", own, (value, begin, end, step), placed, {"begin_mask": 1})[0]

    # --- zeros --------------------------------------------------------------------------------------------

    def zeros(self, name: str, shape: Sequence[int], dtype: str, placed: Placed) -> Tensor:
        """Write zeros: a constant, or what fills a tensor while the step runs if there are many.

        Args:
            name: The name of the op.
            shape: The shape.
            dtype: The type.
            placed: The place of the op.
        """
        own = self.unique(name)
        if prod(shape) < _MANY:
            return self.constant(own, 0, dtype, placed, tuple(shape))
        sizes = self.constant(f"{own}/shape_as_tensor", list(shape), "int32", placed)
        zero = self.constant(f"{own}/Const", 0, dtype, placed)
        return self.write("Fill", own, (sizes, zero), placed)[0]

    def zeros_like(self, name: str, value: Tensor, placed: Placed) -> Tensor:
        """Write zeros of the type and shape of a tensor.

        Args:
            name: The name of the op.
            value: The tensor.
            placed: The place of the op.
        """
        shape = value.known_shape
        if shape is None:
            return self.write("ZerosLike", self.unique(name), (value,), placed)[0]
        return self.zeros(name, shape, value.dtype, placed)

    # --- variables ----------------------------------------------------------------------------------------

    def variable(
        self,
        name: str,
        dtype: str,
        shape: Shape,
        shared: str,
        placed: Placed,
        attributes: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """Write a variable; return its handle.

        Args:
            name: The name of the op.
            dtype: The type of what is in the variable.
            shape: Its shape. If an axis has no fixed size, TensorFlow is told nothing of the shape.
            shared: The name of the variable.
            placed: Its place.
            attributes: More attributes of the op.
        """
        known = {"dtype": dtype, "shape": None if None in shape else shape, "shared_name": shared}
        given = {**known, **(attributes or {})}
        return self.write("VarHandleOp", name, (), placed, given, role="variable", holds=(dtype, shape))[0]

    def read(
        self,
        name: str,
        handle: Tensor,
        placed: Placed,
        waits: Iterable[str] = (),
        role: Role | None = None,
    ) -> Tensor:
        """Write what is in a variable.

        Args:
            name: The name of the op.
            handle: The handle of the variable.
            placed: The place of the op.
            waits: The names of the ops that it waits for.
            role: What it is for, if not for what the others are.
        """
        assert handle.holds is not None
        given = _of_type(handle.holds[0])
        return self.write("ReadVariableOp", name, (handle,), placed, given, waits, role)[0]

    def assign(
        self,
        name: str,
        handle: Tensor,
        value: Tensor,
        placed: Placed,
        waits: Iterable[str] = (),
        role: Role | None = None,
    ) -> str:
        """Write the op that gives a variable a value; return its name.

        Args:
            name: The name of the op.
            handle: The handle of the variable.
            value: The value.
            placed: The place of the op.
            waits: The names of the ops that it waits for.
            role: What it is for, if not for what the others are.
        """
        self.write("AssignVariableOp", name, (handle, value), placed, None, waits, role)
        return name


def _under(levels: Mapping[str, str], own: str) -> str:
    """Return a name with another first level."""
    first, slash, rest = own.partition("/")
    return f"{levels[first]}{slash}{rest}"


@frozen
class Spot:
    """A device, and a scope of names, under which parts of a step are written.

    Attributes:
        writer: Writes the ops.
        scope: The scope of their names, without a slash at the end.
        placed: Their place.
    """

    writer: StepWriter
    scope: str
    placed: Placed

    def name(self, wanted: str) -> str:
        """Return a name in the scope that nothing has yet."""
        return self.writer.unique(f"{self.scope}/{wanted}" if self.scope else wanted)

    def op(self, kind: str, name: str, *inputs: Tensor | float, **attributes: Any) -> tuple[Tensor, ...]:
        """Write an op; return what it makes.

        Args:
            kind: Its type.
            name: Its name in the scope.
            inputs: What it takes; a number is a constant of the type of the other input.
            attributes: Those of its attributes that do not follow from its inputs, and are no defaults.
        """
        return self._write(kind, self.name(name), inputs, attributes)

    def run(self, kind: str, name: str, *inputs: Tensor | float, **attributes: Any) -> str:
        """Write an op as `op` does; return its name.

        Args:
            kind: Its type.
            name: Its name in the scope.
            inputs: What it takes.
            attributes: Those of its attributes that do not follow from its inputs, and are no defaults.
        """
        own = self.name(name)
        self._write(kind, own, inputs, attributes)
        return own

    def _write(
        self, kind: str, own: str, inputs: Sequence[Tensor | float], attributes: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        taken, dtypes = list[Tensor](), [each.dtype for each in inputs if isinstance(each, Tensor)]
        for at, each in enumerate(inputs):
            if isinstance(each, Tensor):
                taken.append(each)
            else:
                taken.append(self.writer.constant(f"{own}/{'xy'[at]}", each, dtypes[0], self.placed))
        return self.writer.write(kind, own, taken, self.placed, attributes)

    def read(self, variable: Tensor, name: str = "ReadVariableOp") -> Tensor:
        """Write what is in a variable, of which there is the handle.

        Args:
            variable: The handle.
            name: The name of the op in the scope.
        """
        return self.writer.read(self.name(name), variable, self.placed)

    def assign(self, variable: Tensor, value: Tensor, name: str = "AssignVariableOp") -> str:
        """Write the op that gives a variable a value; return its name.

        Args:
            variable: The handle of the variable.
            value: The value.
            name: The name of the op in the scope.
        """
        return self.writer.assign(self.name(name), variable, value, self.placed)

    def cast(self, value: Tensor, dtype: str) -> Tensor:
        """Write a tensor with elements of another type; one of the type already is returned as it is.

        Args:
            value: The tensor.
            dtype: The name of the type.
        """
        return self.writer.cast(f"{self.scope}/Cast" if self.scope else "Cast", value, dtype, self.placed)

    def times(self, value: Tensor, factor: Tensor | float) -> Tensor:
        """Write the product of a tensor and a number, in the type of the tensor.

        Args:
            value: The tensor.
            factor: The number, a scalar.
        """
        given = self.cast(factor, value.dtype) if isinstance(factor, Tensor) else factor
        return self.op("Mul", "mul", value, given)[0]

    def sum(self, name: str, values: Sequence[Tensor]) -> Tensor:
        """Write the sum of tensors of one shape; that of one is a copy.

        Args:
            name: The name of the op in the scope.
            values: The tensors.
        """
        return self.op("Identity" if len(values) == 1 else "AddN", name, *values)[0]

    def waiting(self, before: Iterable[str]) -> Spot:
        """Return the same for ops that wait for others, as `StepWriter.waiting` says."""
        return Spot(self.writer.waiting(before), self.scope, self.placed)


@cache
def _of_type(dtype: str) -> Mapping[str, Any]:
    """Return the attributes of reads, which are the same for very many."""
    return {"dtype": dtype}


_NONE: Mapping[str, Any] = {}
"""The attributes of ops that have none."""

_MANY = 1000
"""The number of zeros from which they are no constant in a graph."""
