"""The shapes of the tensors of a model, as far as they are certain without Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.model.elaborate import elaborate
from compiler.model.known_shapes import known_shapes
from dsl import ir
from dsl.diagnostics import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.model.layer_shapes import Shape
    from dsl.source import Span


def shapes_of(spec: ir.Spec) -> Mapping[str, Shape]:
    """Return the shapes of the tensors of a model by their names, without the batch axis.

    A tensor whose shape is not certain, or that a `layer` block makes, is left out.

    Args:
        spec: A spec without errors.
    """
    try:
        graph = elaborate(spec)
    except SpecError:
        return {}
    values = known_shapes(graph).values
    made = {_place(call.span): values[call.values[0]] for call in graph.calls if call.span is not None}
    shapes = {each.name: each.shape for each in graph.inputs}
    for binding in spec.model.bindings:
        if isinstance(binding.value, ir.Flow) and not binding.others:
            shape = made.get(_place(binding.value.steps[-1].span))
            if shape is not None:
                shapes[binding.name] = shape
    return shapes


def _place(span: Span | None) -> tuple[str, int, int] | None:
    return None if span is None else (span.source.name, span.start, span.end)


def written(shape: Shape) -> str:
    """Return a shape as the language writes it."""
    return f"[{', '.join(map(str, shape))}]"
