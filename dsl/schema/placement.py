"""The selectors and targets of `place`, and the conditions of `expect`."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from attrs import frozen

from dsl import ir
from dsl.schema.notation import arguments, entries
from dsl.schema.types import Argument, Function, string
from dsl.values import Dimension

Pattern: TypeAlias = Literal["none", "optional", "required"]


@frozen
class Selector:
    """What a placement rule can select."""

    name: str
    pattern: Pattern  # whether a glob may or must follow it
    doc: str

    @property
    def function(self) -> Function:
        """The selector as a function, whose argument is a glob if it takes one."""
        glob = Argument("glob", string(), "a glob of names", required=self.pattern == "required")
        return Function(self.name, () if self.pattern == "none" else (glob,), doc=self.doc)


SELECTORS = tuple(
    Selector(head[0], head[2] or "none", head[4])  # type: ignore[arg-type] # the table has no others
    for head, _ in entries("""
clones: the clones: one device or group for each, in order, and again from the first
variables { optional }: the variables of the model: all, or those that match a glob
slots { optional }: the optimizer's slots: all, or those of the variables that match a glob
inputs: reading and transforming data
updates: aggregation and apply ops
ops { required }: the ops of each tower whose names inside the tower match a glob
summaries: the ops that make summaries
evaluation: the ops of evaluations
""")
)
"""The braces say whether a glob may or must follow the word."""

TargetShape: TypeAlias = Literal["word", "set", "groups", "pieces", "clones", "member"]


@frozen
class Target:
    """Where a placement rule can put what it selects."""

    name: str
    shape: TargetShape
    record: type[Any]
    roles: tuple[str, ...]  # the selectors that it can be used with
    doc: str
    arguments: tuple[Argument, ...] = ()  # its arguments beside the set of devices, which are given by name


def _written(text: str) -> tuple[Any, type[Any]]:
    """Return the shape of a target and its record."""
    shape, record = text.split()
    return shape, getattr(ir, record)


TARGETS = tuple(
    Target(head[0], *_written(head[2]), tuple(head[3].split(", ")), head[4], arguments(rows))
    for head, rows in entries("""
balanced { set Balanced } -> variables: the largest variable first, each to the device with the fewest bytes,
    slots included
round_robin { set RoundRobin } -> variables: one device after the other, in the order of creation
sharded { pieces Sharded } -> variables: each variable is cut along an axis, with one piece on each device; a
    piece has at least one row and `min_size` bytes, so that small variables have fewer pieces
  *axis = 0: int[0,) -- axis along which variables are cut
  *min_size = 0: size[0,) -- bytes of a piece
sharded { clones OverClones } -> slots: each clone keeps an equal part of the slots and averages of replicated
    variables, and updates it
replicated { word Replicated } -> variables: a copy on the device of every clone, kept equal by all-reduce
groups { groups Groups } -> clones: `groups(set, size = 2)`: each clone owns a group of devices
  *size: int[1,) -- devices in a group
group { member GroupMember } -> ops, variables: `group[k]`: device k of the clone's own group
""")
)


@frozen
class Measure:
    """A function that `expect` can compare with a number."""

    name: str
    arguments: tuple[str, ...]  # the kind of each argument: `devices`, `glob` or a word
    dimension: Dimension | None  # the dimension of the result, or None for a plain number
    doc: str
    most: float | None = None  # the largest result that there can be, or None if there is no such bound
    # Whether the result can be 0. A comparison with what it cannot be is a mistake.
    can_be_zero: bool = True


MEASURES = (
    Measure(
        "imbalance", ("variables",), "fraction", "by how much the device with the most bytes exceeds the mean"
    ),
    Measure("memory", ("devices",), "bytes", "the largest memory that one of the devices needs for a step"),
    Measure(
        "traffic",
        ("devices", "devices"),
        "bytes",
        "the bytes that are sent from the first devices to the second ones in a step",
    ),
    Measure("step_time", (), "seconds", "the forecast time of a step", can_be_zero=False),
    Measure(
        "busy",
        ("devices",),
        "fraction",
        "the part of a step in which a device runs at least one op, by the forecast; holds for each device",
        most=1.0,
    ),
    Measure("ops", ("devices", "glob"), None, "how many ops on the devices have names that match the glob"),
)

COMPARISONS = ("<=", "<", ">=", ">", "==")


def selector(name: str) -> Selector | None:
    """Return the selector with this name, or None."""
    return next((each for each in SELECTORS if each.name == name), None)


def target(name: str) -> Target | None:
    """Return the target with this name, or None; for `sharded`, that of variables."""
    return next((each for each in TARGETS if each.name == name), None)


def target_of(record: object) -> Target | None:
    """Return the target whose record this is, or None for a set of devices."""
    return next((each for each in TARGETS if isinstance(record, each.record)), None)


def measure(name: str) -> Measure | None:
    """Return the function of `expect` with this name, or None."""
    return next((each for each in MEASURES if each.name == name), None)
