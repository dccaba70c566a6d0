"""What stands in an expression of a model: the names that it uses, and the steps that make layers."""

from __future__ import annotations

from collections.abc import Iterator

from dsl.ir.base import Call
from dsl.ir.model import Flow, Group, Index, Operation, Ref, SharedLayer, Step


def parts_of(value: object) -> Iterator[object]:
    """Yield the value of a binding, or an expression, and all that stands in it, outermost first."""
    yield value
    inner: tuple[object, ...] = ()
    match value:
        case Group():
            inner = value.items
        case Flow():
            inner = (value.source, *value.steps)
        case Step():
            inner = tuple(value.given.values())
        case Index():
            inner = (value.tensor, *value.parts)
        case Operation():
            inner = (*value.args, *value.kwargs.values())
        case SharedLayer():
            inner = (value.step,)
        case tuple():
            inner = value
    for each in inner:
        yield from parts_of(each)


def names_in(value: object) -> Iterator[str]:
    """Yield the names of the tensors and shared layers that an expression uses."""
    for part in parts_of(value):
        if isinstance(part, Ref):
            yield part.name
        elif isinstance(part, Step) and part.kind == "shared":
            yield part.call.name


def steps_in(value: object) -> Iterator[Step]:
    """Yield the steps in the value of a binding, but not those that `repeat` copies."""
    for part in parts_of(value):
        if isinstance(part, Step):
            yield part


def calls_in(value: object) -> Iterator[Call]:
    """Yield the calls among the arguments of a call, at any depth."""
    parts = (*value.args, *value.kwargs.values()) if isinstance(value, Call) else value
    for each in parts if isinstance(parts, tuple) else ():
        if isinstance(each, Call):
            yield each
        yield from calls_in(each)
