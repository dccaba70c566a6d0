"""The model as the page draws it: a box for each input, call of a layer and loss, and arrows for values."""

from __future__ import annotations

from typing import Any

from compiler.model.graph import ModelGraph
from compiler.report.page.data.numbers import NONE, Numbers
from dsl.source import Span


def model_data(model: ModelGraph, files: Numbers) -> dict[str, Any]:
    """Return the boxes and the arrows between them.

    Returns:
        `boxes`, each `[scope inside a tower, what it is, kind, file, line, column]` with `input`, `layer`,
        `operation`, `weight` or `loss` for its kind, and `arrows`, each `[from, to]` by numbers of boxes.
    """
    boxes: list[list[Any]] = []
    arrows: dict[tuple[int, int], None] = {}
    maker: dict[int, int] = {}

    def add(scope: str, label: str, kind: str, span: Span | None, inputs: tuple[int, ...]) -> int:
        number = len(boxes)
        boxes.append([scope, label, kind, *_place(span, files)])
        arrows.update(dict.fromkeys((maker[each], number) for each in inputs if each in maker))
        return number

    for each in model.inputs:
        axes = ", ".join("none" if size is None else str(size) for size in each.shape)
        maker[each.value] = add(each.name, f"{each.dtype} [{axes}]", "input", each.span, ())
    for call in model.calls:
        layer = model.layers[call.layer]
        kind = layer.kind if layer.kind in {"operation", "weight"} else "layer"
        number = add(layer.path, layer.label, kind, layer.span, call.inputs)
        maker |= dict.fromkeys(call.values, number)
    for loss in model.losses:
        add(f"loss/{loss.name}", loss.label, "loss", loss.span, (loss.prediction, loss.target))
    return {"boxes": boxes, "arrows": [list(each) for each in arrows]}


def places_of(model: ModelGraph) -> list[Span]:
    """Return the places of the spec at which the boxes of a model are written."""
    spans = [each.span for each in model.inputs]
    spans += [each.span for each in model.layers]
    spans += [each.span for each in model.losses]
    return [each for each in spans if each is not None]


def _place(span: Span | None, files: Numbers) -> tuple[int, int, int]:
    if span is None:
        return NONE, 0, 0
    start = span.begin
    return files.of(span.source.name), start.line, start.column
