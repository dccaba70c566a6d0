"""Axes of inputs without a fixed size: what their batches are filled with, and what forecasts assume."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from compiler.model.graph import FreeAxis, InputNode
from dsl import ir

UNKNOWN = 128
"""The size that forecasts assume if nothing in the spec says more."""

BY_DEFAULT = "the default; `assume` of the input changes it"


@frozen
class Padding:
    """What a split says about the sizes of a tensor along its free axes."""

    value: float = 0
    size: int | None = None  # the size to which all are filled, or None
    multiple: int = 1
    boundaries: tuple[int, ...] = ()  # the largest lengths of the groups of `bucket`
    # The positions of the `pad` transforms that fill the tensor, among the transforms of the split.
    pads: frozenset[int] = frozenset()


def padding_of(name: str, split: ir.Split | None) -> Padding:
    """Return what the transforms of a split say about the tensor that reaches an input."""
    found = Padding()
    transforms = split.transforms if split is not None else ()
    for position, call in reversed([*enumerate(transforms)]):
        given = call.args[0] if call.args else call.kwargs.get("name")
        names = given if isinstance(given, tuple) else (given,)
        if call.name == "rename":
            name = str(call.kwargs.get(name, name))
        elif call.name == "pad" and name in names:
            size, multiple = _target(call.kwargs.get("to"))
            value, pads = _number(call.kwargs.get("value", 0)), found.pads | {position}
            found = evolve(found, value=value, size=size, multiple=multiple, pads=pads)
        elif call.name == "bucket" and name in names:
            boundaries = call.kwargs.get("boundaries", call.args[1] if len(call.args) > 1 else ())
            sizes = boundaries if isinstance(boundaries, tuple) else ()
            found = evolve(found, boundaries=tuple(each for each in sizes if isinstance(each, int)))
    return found


def _number(value: ir.Value) -> float:
    return value if isinstance(value, int | float) else 0


def _target(to: ir.Value) -> tuple[int | None, int]:
    """Return the size that `to` of a `pad` gives, or None, and the number of which sizes are a multiple."""
    if isinstance(to, ir.Call):
        multiple = to.args[0] if to.args else to.kwargs.get("n", 1)
        return None, multiple if isinstance(multiple, int) else 1
    return to if isinstance(to, int) else None, 1


def free_axes(shape: Sequence[int | None], assume: Sequence[int], padding: Padding) -> tuple[FreeAxis, ...]:
    """Return the axes of an input without a fixed size."""
    axes = [at for at, size in enumerate(shape) if size is None]
    if assume:
        return tuple(FreeAxis(at, size, "`assume`") for at, size in zip(axes, assume, strict=True))
    return tuple(FreeAxis(at, *_assumed(at, padding)) for at in axes)


def _assumed(axis: int, padding: Padding) -> tuple[int, str]:
    """Return the size that forecasts assume for an axis, and what gives it."""
    if padding.size is not None:
        return padding.size, "`to` of `pad`"
    if padding.boundaries and axis == 0:
        largest = -(-max(padding.boundaries) // padding.multiple) * padding.multiple
        return largest, "the last of `boundaries`"
    rounded = -(-UNKNOWN // padding.multiple) * padding.multiple
    return rounded, BY_DEFAULT


def with_common_sizes(inputs: Sequence[InputNode], split: ir.Split | None) -> list[InputNode]:
    """Let inputs that one `pad` fills have the same sizes: words and their tags are equally long.

    Returns:
        The inputs. An axis with the default size has that of the first input that one of its `pad`s fills
        too and for which the spec says more.
    """
    pads = {each.name: padding_of(each.name, split).pads for each in inputs}

    def common(node: InputNode, free: FreeAxis) -> FreeAxis:
        if free.source != BY_DEFAULT:
            return free
        for other in inputs:
            for each in other.free if pads[other.name] & pads[node.name] else ():
                if each.axis == free.axis and each.source != BY_DEFAULT:
                    return evolve(
                        free,
                        assumed=each.assumed,
                        source=f"that of `{other.name}`, which the same `pad` fills",
                    )
        return free

    return [evolve(node, free=tuple(common(node, each) for each in node.free)) for node in inputs]
