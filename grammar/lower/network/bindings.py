"""The bindings of a `model` or `layer` block, in the order in which they need each other."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dsl import ir, schema, syntax
from dsl.errors import layers as tensor_errors
from dsl.errors import names, references, types
from dsl.schema import signatures
from dsl.schema import types as kinds
from grammar.lower import values
from grammar.lower.blocks import RESERVED, once
from grammar.lower.context import BAD
from grammar.lower.network import flows
from grammar.lower.network.operations import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.source import Span
    from grammar.lower.network.flows import Tensors


UNNAMED = "_"
"""The name of an output that nothing needs; any number of outputs can have it."""


def declare(
    items: Sequence[syntax.Attribute], tensors: Tensors, first: dict[str, Span]
) -> list[syntax.Attribute]:
    """Add the names of all bindings to the scope, and return the items that are bindings.

    Args:
        items: The items of the block that are written `name = value`.
        tensors: The scope, to which kinds and places of names are added.
        first: Where each name of the block was defined first, to which new names are added.
    """
    kept = []
    for item in items:
        fine = [_declared(name, span, tensors, first) for name, span in item.names]
        if not all(fine):
            continue
        kept.append(item)
        for name, span in item.names:
            if name != UNNAMED:
                tensors.kinds[name] = _kind(item.value)
                tensors.spans[name] = span
    return kept


def _declared(name: str, span: Span, tensors: Tensors, first: dict[str, Span]) -> bool:
    """Whether a name can be bound; report it if it cannot."""
    if name == UNNAMED:
        return True
    if name in RESERVED:
        tensors.context.reports.add(names.reserved(span, name=name, why=RESERVED[name]))
        return False
    return once(name, span, first, "binding", tensors.context)


def _kind(value: syntax.Expr) -> str:
    if isinstance(value, syntax.Call):
        known = {"input": "input", "layer": "shared", "weight": "tensor"}
        is_operation = value.callee.name.startswith(PREFIX)
        return "tensor" if is_operation else known.get(value.callee.name, "bad")
    return "bad" if isinstance(value, syntax.Broken) else "tensor"


def read(
    items: Sequence[syntax.Attribute], tensors: Tensors, *, in_layer: bool
) -> tuple[ir.Binding, ...] | None:
    """Lower the bindings.

    Args:
        items: The bindings as written.
        tensors: The names in scope.
        in_layer: Whether they are in a `layer` block instead of the model.

    Returns:
        The bindings, each after those that it needs, or None if there is an error.
    """
    ordered = _ordered(items, tensors)
    read_ = [_binding(item, tensors, in_layer=in_layer) for item in ordered or items]
    if ordered is None or any(binding is BAD for binding in read_):
        return None
    return tuple(read_)


def _binding(item: syntax.Attribute, tensors: Tensors, *, in_layer: bool) -> Any:
    value = _value(item, tensors, in_layer=in_layer)
    if value is BAD:
        return BAD
    binding = ir.Binding(
        item.name,
        value,
        tuple(name for name, _ in item.others),
        span=item.span,
        name_span=item.name_span,
        other_spans=tuple(span for _, span in item.others),
    )
    if item.others and not isinstance(value, ir.Flow | ir.Operation):
        count = len(item.names)
        tensors.context.reports.add(
            tensor_errors.several_outputs(item.value.span.text, 1, item.value.span, count)
        )
        return BAD
    if isinstance(value, ir.Input) and not in_layer:
        tensors.context.notes.inputs.append(binding)
    return binding


def _value(item: syntax.Attribute, tensors: Tensors, *, in_layer: bool) -> Any:
    value = item.value
    if isinstance(value, syntax.Call) and value.callee.name == "input":
        return _input(value, tensors, in_layer=in_layer)
    if isinstance(value, syntax.Call) and value.callee.name == "layer":
        return flows.layer_made(value, tensors)
    if isinstance(value, syntax.Call) and value.callee.name == "weight":
        bound = values.bound(value, weight_function(), tensors.context)
        return BAD if bound is BAD else ir.Weight(bound, span=value.span)
    return flows.tensor(value, tensors, what=f"`{item.name}`")


INPUT = schema.Function(
    "input",
    (
        schema.Argument("dtype", kinds.dtype(), "the type of the elements", required=True),
        schema.Argument("shape", kinds.free_shape(), "the shape without the batch axis", required=True),
        schema.Argument(
            "assume",
            kinds.either(kinds.integer(low=1), kinds.listing(kinds.integer(low=1))),
            "the sizes that forecasts assume for the axes that are `none`",
            positional=False,
        ),
    ),
    doc="a tensor of the examples, which has the name of the binding",
)
"""The function `input`."""


@cache
def weight_function() -> schema.Function:
    """Return the function `weight`, which makes a trainable tensor that no layer owns."""

    def keras(category: str, *, optional: bool = False) -> schema.Type:
        return kinds.keras(category, signatures.words(category), optional=optional)

    return schema.Function(
        "weight",
        (
            schema.Argument("shape", kinds.shape(), "the shape without the batch axis", required=True),
            schema.Argument("initializer", keras("initializer"), "its first value", default="glorot_uniform"),
            schema.Argument("regularizer", keras("regularizer", optional=True), "a penalty on it"),
            schema.Argument("constraint", keras("constraint", optional=True), "what it is held to"),
            schema.Argument("trainable", kinds.boolean(), "whether training changes it", default=True),
            schema.Argument("name", kinds.string(), "its name; without one, that of its binding"),
        ),
    )


def _input(call: syntax.Call, tensors: Tensors, *, in_layer: bool) -> Any:
    if in_layer:
        if call.arguments:
            tensors.context.reports.add(types.input_of_layer(call.span))
            return BAD
        return ir.Input(None, None, span=call.span)
    bound = values.bound(call, INPUT, tensors.context)
    if bound is BAD:
        return BAD
    given = dict(zip(("dtype", "shape"), bound.args, strict=False)) | dict(bound.kwargs)
    assume, free = given.get("assume", ()), given["shape"].count(None)
    sizes = assume if isinstance(assume, tuple) else (assume,) * max(free, 1)
    if sizes and len(sizes) != free:
        report = types.sizes_of_free_axes(len(sizes), free, bound.kwarg_spans.get("assume", call.span))
        tensors.context.reports.add(report)
        return BAD
    return ir.Input(given["dtype"], given["shape"], sizes, span=call.span)


def _ordered(items: Sequence[syntax.Attribute], tensors: Tensors) -> list[syntax.Attribute] | None:
    """Sort bindings so that each comes after those that it needs; return None if they form a cycle.

    Bindings are identified by their position, because the first name of several of them may be `_`.
    """

    def positions_needed(position: int) -> Iterator[int]:
        return iter([position_of[name] for name in _names(items[position].value) if name in position_of])

    position_of = {
        name: position for position, item in enumerate(items) for name, _ in item.names if name != UNNAMED
    }
    done: dict[int, None] = {}
    fine = True
    for start in range(len(items)):
        path = {start: None} if start not in done else {}
        waiting = [positions_needed(start)] if path else []
        while waiting:
            following = next((each for each in waiting[-1] if each not in done), None)
            if following is None:
                waiting.pop()
                done[path.popitem()[0]] = None
            elif following in path:
                fine = False
                circle = [items[each] for each in [*path][[*path].index(following) :]]
                spans = [each.name_span for each in circle]
                names = [each.name for each in circle]
                tensors.context.reports.add(references.cycle("binding", names, spans[0], spans[1:]))
                done.update(dict.fromkeys(path))
            else:
                path[following] = None
                waiting.append(positions_needed(following))
    return [items[position] for position in done] if fine else None


def _names(value: syntax.Node) -> Iterator[str]:
    """Yield the names in the expression of a binding that other bindings may have."""
    parts = syntax.parts_of(value)
    match value:
        case syntax.Path():
            yield value.segments[0].name
        case syntax.Call():
            yield value.callee.segments[0].name  # of a shared layer
            takes_tensors = value.callee.name.startswith(PREFIX) or value.callee.name in {"repeat", "layer"}
            parts = (*(value.arguments if takes_tensors else ()), *value.given)
        case syntax.Comparison() | syntax.Range() | syntax.Slice():
            return
    for part in parts:
        yield from _names(part)


def parameter(item: syntax.Attribute, tensors: Tensors) -> Any:
    """Lower the declaration of a parameter of a `layer` block.

    Args:
        item: The item, whose value is a call of `parameter`.
        tensors: The scope of the block.

    Returns:
        The `LayerParameter`, or BAD if it has errors.
    """
    call = item.value
    if not isinstance(call, syntax.Call):
        return BAD
    context = tensors.context
    first = schema.Argument("type", kinds.word(*flows.PARAMETER_TYPES), required=True)
    head = syntax.Call(call.callee, call.arguments[:1], span=call.span)
    bound = values.bound(head, schema.Function("parameter", (first,)), context)
    if bound is BAD:
        return BAD
    type_ = next(iter((*bound.args, *bound.kwargs.values())))
    if len(call.arguments) == 1:
        return ir.LayerParameter(item.name, type_, span=item.span)
    second = schema.Argument("default", flows.parameter_type(type_))
    whole = values.bound(call, schema.Function("parameter", (first, second)), context)
    if whole is BAD:
        return BAD
    default = whole.args[1] if len(whole.args) > 1 else whole.kwargs.get("default")
    return ir.LayerParameter(item.name, type_, default, has_default=True, span=item.span)
