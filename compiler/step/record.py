"""The records of a step: tensors, rows of a table, and the ops that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Literal, TypeAlias, cast

from attrs import field, frozen

from compiler.figures import gathered
from compiler.reasons import Placed, record
from compiler.topology import Device

Role = Literal[
    "input",
    "variable",
    "read",
    "forward",
    "gradient",
    "aggregate",
    "update",
    "metric",
    "summary",
    "evaluation",
    "save",
    "init",
]

Shape: TypeAlias = tuple[int | None, ...]

ITEM_BYTES: Mapping[str, int] = {
    **dict.fromkeys(("bool", "int4", "int8", "uint4", "uint8", "qint8", "quint8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "qint16", "quint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32", "qint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}
"""The bytes of an element of each type that has a fixed size."""

HANDLES = ("resource", "variant")
"""The types of tensors that only refer to something."""

SMALL = 1 << 16
"""The most bytes of a tensor that is sent in one piece with others."""


@record
class Tensor:
    """A tensor that an op of a step makes, or that was there before.

    Attributes:
        op: The name of the op.
        dtype: The name of the type of its elements.
        shape: Its shape, with None for an axis whose size depends on the examples; None if even the number of
            axes does.
        output: Its number among the results of the op.
        value: Its elements, if it is a constant.
        holds: The type and shape of what is in the variable, if it is the handle of one.
    """

    op: str
    dtype: str
    shape: Shape | None
    output: int = 0
    value: Any = field(default=None, eq=False, repr=False)
    holds: tuple[str, Shape] | None = field(default=None, eq=False, repr=False)

    @property
    def name(self) -> str:
        """Its name, as sessions have it."""
        return f"{self.op}:{self.output}"

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """Its shape, if all axes have known sizes."""
        shape = self.shape
        return None if shape is None or None in shape else cast("tuple[int, ...]", shape)

    @property
    def elements(self) -> int | None:
        """The number of its elements, if that is known."""
        return _elements(self.shape)

    @property
    def bytes(self) -> int | None:
        """Its bytes, if they are known."""
        return bytes_of(self.dtype, self.shape)

    @property
    def held_bytes(self) -> int | None:
        """The bytes of what is in the variable, if it is the handle of one and they are known."""
        return None if self.holds is None else Tensor(self.op, *self.holds).bytes

    @property
    def text(self) -> str:
        """Its type and shape, such as `float32[3,?]`."""
        axes = "..." if self.shape is None else ",".join("?" if n is None else str(n) for n in self.shape)
        return f"{self.dtype}[{axes}]"


@lru_cache(maxsize=1 << 14)
def _elements(shape: Shape | None) -> int | None:
    return None if shape is None or None in shape else prod(cast("tuple[int, ...]", shape))


@lru_cache(maxsize=1 << 14)
def bytes_of(dtype: str, shape: Shape | None) -> int | None:
    """Return the bytes of a tensor, if they are known.

    Args:
        dtype: The name of the type of its elements.
        shape: Its shape.
    """
    count, size = _elements(shape), ITEM_BYTES.get(dtype)
    return None if count is None or size is None else count * size


@frozen
class Rows:
    """Rows of a table.

    Attributes:
        values: The rows.
        indices: The number of each row in the table.
        merged: The rows of which they are the sums, on the same device, if their numbers are distinct because
            of that.
    """

    values: Tensor
    indices: Tensor
    merged: Rows | None = field(default=None, eq=False, repr=False)


Value: TypeAlias = Tensor | Rows


@frozen
class Run:
    """An op of a step that is run for what it does.

    Attributes:
        name: Its name.
    """

    name: str


@record
class Entry:
    """The record of one op.

    Attributes:
        placed: The device that was asked for, and the reason.
        role: What the op is for.
        clone: The number of the clone, or None if the op belongs to no tower.
    """

    placed: Placed
    role: Role
    clone: int | None = None

    @property
    def device(self) -> Device:
        """The device that was asked for."""
        return self.placed.device


@record
class Op:
    """An op of a step.

    Attributes:
        name: Its name, which no other op has.
        type: Its type in TensorFlow.
        inputs: The tensors that it takes, in their order.
        placed: Its device, and the reason.
        role: What it is for.
        outputs: The tensors that it makes.
        attributes: Those of its attributes that do not follow from its inputs, and are no defaults.
        waits: The names of the ops that it waits for besides.
        clone: The number of the clone that it belongs to, or None.
        own: Whether each worker with a graph of its own has one on its own devices. What is not its own stays
            on its device in the graphs of all.
    """

    name: str
    type: str
    inputs: tuple[Tensor, ...]
    placed: Placed
    role: Role
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any] = field(factory=dict)
    waits: tuple[str, ...] = ()
    clone: int | None = None
    own: bool = False

    @property
    def device(self) -> Device:
        """Its device."""
        return self.placed.device


Entered: TypeAlias = Entry | Op
"""What says of an op where it is, what it is for, and of which clone."""


@frozen
class Crossing:
    """A tensor that one worker with a graph of its own sends to another in a step, in a queue.

    Attributes:
        tensor: The tensor; its name is the same in the graphs of all workers.
        source: The number of the worker that sends it.
        target: The number of the worker that receives it.
    """

    tensor: Tensor
    source: int
    target: int


Made: TypeAlias = Sequence[tuple[str, Shape | None]]
"""The type and shape of each result of an op."""


@frozen(eq=False)
class Fragment:
    """Ops that were traced once, which steps use many times.

    Attributes:
        nodes: The ops as a GraphDef of TensorFlow, in an order in which they could run. What they take from
            elsewhere is not among them.
        result: The tensor, or the op, for which they are there, by its own name; None if there is none.
        made: What each of the ops makes, by its name.
        first: The names of the ops that wait for whatever a use of the fragment comes after.
        functions: The Python functions that the ops call, which are kept as long as the fragment.
    """

    nodes: Any = field(repr=False)
    result: str | None = None
    made: Mapping[str, Made] = field(factory=dict, repr=False)
    first: Sequence[str] = field(default=(), repr=False)
    functions: Sequence[Any] = field(default=(), repr=False)

    @cached_property
    def node(self) -> Mapping[str, Any]:
        """The ops by their names."""
        return {node.name: node for node in self.nodes.node}

    @cached_property
    def waits(self) -> Mapping[str, Sequence[str]]:
        """The names of the ops that each op waits for besides, by the names of those that do."""
        found = {
            own: [each[1:] for each in node.input if each.startswith("^")] for own, node in self.node.items()
        }
        return {own: waits for own, waits in found.items() if waits}

    def waits_of(self, own: str, names: Mapping[str, str], given: Mapping[str, Tensor]) -> list[str]:
        """Return the names in a step of what an op of a use waits for.

        Args:
            own: The own name of the op.
            names: The names of the ops of the use, by their own.
            given: What they take from elsewhere, by the names that they have for it.
        """
        return [given[each].op if each in given else names[each] for each in self.waits.get(own, ())]

    @cached_property
    def levels(self) -> Mapping[str, str]:
        """The first levels of the names, each with that of which it is the second, or a later one."""
        found: dict[str, str] = {}
        for name in self.node:
            level = name.partition("/")[0]
            plain, _, number = level.rpartition("_")
            found.setdefault(level, plain if number.isdecimal() and plain in found else level)
        return found

    @cached_property
    def below(self) -> Mapping[str, list[str]]:
        """The rest of the names that have several levels, by their first ones."""
        parts = (name.partition("/") for name in self.node)
        return gathered((level, rest) for level, _, rest in parts if rest)


@frozen(eq=False)
class Use:
    """A fragment in a step, or a part of one.

    Attributes:
        fragment: The fragment.
        ops: Those of its ops that are written here, by their own names and in their order.
        names: The names of its ops in the step, by their own.
        given: What these take from elsewhere, by the names that they have for it.
        placed: Their place, or that of each.
        role: What they are for, or what each is for.
        clone: The number of the clone that they belong to, or None.
        waits: What ops wait for in place of their own control inputs, by their own names.
        instead: What an op takes in place of an input, by its own name and the number of the input.
    """

    fragment: Fragment
    ops: Sequence[str] = field(repr=False)
    names: Mapping[str, str] = field(repr=False)
    given: Mapping[str, Tensor] = field(repr=False)
    placed: Placed | Mapping[str, Placed]
    role: Role | Mapping[str, Role]
    clone: int | None = None
    waits: Mapping[str, Sequence[str]] = field(factory=dict, repr=False)
    instead: Mapping[tuple[str, int], Tensor] = field(factory=dict, repr=False)

    def place_of(self, own: str) -> Placed:
        """Return the place of an op by its own name."""
        return self.placed if isinstance(self.placed, Placed) else self.placed[own]

    def role_of(self, own: str) -> Role:
        """Return what an op is for by its own name."""
        return self.role if isinstance(self.role, str) else self.role[own]

    def waits_of(self, own: str) -> Sequence[str]:
        """Return the names of what an op waits for, by its own name."""
        known = self.waits.get(own)
        return self.fragment.waits_of(own, self.names, self.given) if known is None else known

    def takes(self, own: str) -> list[str]:
        """Return the names of the ops outside of the fragment whose results an op takes, by its own name."""
        return [self.given[each].op for each in self.fragment.node[own].input if each in self.given]

    def tensor(self, own: str) -> Tensor:
        """Return a tensor by its own name, or what was given for it."""
        known = self.given.get(own)
        if known is not None:
            return known
        op, _, output = own.partition(":")
        dtype, shape = self.fragment.made[op][int(output or 0)]
        return Tensor(self.names[op], dtype, shape, int(output or 0))

    @property
    def end(self) -> str:
        """The name of the op that makes the result."""
        assert self.fragment.result is not None
        return self.names[self.fragment.result.partition(":")[0]]

    @property
    def result(self) -> Tensor:
        """The result, if it is a tensor; what was given may be the result itself."""
        assert self.fragment.result is not None
        return self.tensor(self.fragment.result.removesuffix(":0"))
