"""The bindings of `model` and `layer` blocks, and the `layer` blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import evolve, field, frozen

from dsl import ir, schema, syntax
from dsl.errors import layers as tensor_errors
from dsl.errors import names, references, types
from dsl.schema import BLOCKS
from dsl.schema.functions import INPUT, PARAMETER, PARAMETER_TYPES, weight_function
from dsl.source import Span
from dsl.suggest import nearest
from grammar.lower import blocks, values
from grammar.lower.blocks import defined
from grammar.lower.context import BAD, Context
from grammar.lower.network import flows
from grammar.lower.network.operations import PREFIX, Tensors

# --- what is in a model or layer --------------------------------------------------------------------------


@frozen
class Body:
    """The items of a `model` or `layer` block: its own attributes, bindings, and inner blocks."""

    own: dict[str, syntax.Attribute] = field(factory=dict)
    bindings: list[syntax.Attribute] = field(factory=list)
    inner: dict[str, syntax.Block] = field(factory=dict)


def body_of(  # noqa: C901 one for each kind of item
    block: syntax.Block, known: schema.Block, first: dict[str, Span], context: Context
) -> Body:
    """Sort the items of a block, and report those that do not belong; its own names are added to `first`."""
    body, parameters = Body(), _parameters(block) if known.name == "layer" else []
    for item in block.items:
        if isinstance(item, syntax.Attribute) and item in parameters:
            if item.name in known.names:
                report = names.reserved(item.name_span, name=item.name, why="it is what the layer gives")
                context.reports.add(report)
        elif isinstance(item, syntax.Attribute):
            if item.name not in known.names:
                body.bindings.append(item)
            elif blocks.once(item.name, item.name_span, first, "attribute", context):
                body.own[item.name] = item
        elif isinstance(item, syntax.Block):
            if item.kind not in known.inner:
                blocks.unknown_block(item, known.inner, known.names, f"`{known.name}`", context)
            elif blocks.once(item.kind, item.kind_span, first, "block", context):
                blocks.check_label(item, BLOCKS[item.kind], context)
                body.inner[item.kind] = item
        elif not isinstance(item.value, syntax.Broken):
            blocks.misplaced(item, f"`{known.name}`", context)
    return body


# --- bindings, in the order in which they need each other -------------------------------------------------

UNNAMED = "_"
"""The name of an output that nothing needs; any number of outputs can have it."""


def declare_bindings(
    items: Sequence[syntax.Attribute], tensors: Tensors, first: dict[str, Span]
) -> list[syntax.Attribute]:
    """Add the names of all bindings to the scope, and return the items that are bindings."""
    kept = []
    for item in items:
        named = [each for each in item.names if each[0] != UNNAMED]
        fine = [defined(name, span, first, "binding", tensors.context) for name, span in named]
        if all(fine):
            kept.append(item)
            tensors.kinds.update((name, _kind(item.value)) for name, _ in named)
            tensors.spans.update(named)
    return kept


def _kind(value: syntax.Expr) -> str:
    if isinstance(value, syntax.Call):
        known = {"input": "input", "layer": "shared", "weight": "tensor"}
        is_operation = value.callee.name.startswith(PREFIX)
        return "tensor" if is_operation else known.get(value.callee.name, "bad")
    return "bad" if isinstance(value, syntax.Broken) else "tensor"


def read_bindings(
    items: Sequence[syntax.Attribute], tensors: Tensors, *, in_layer: bool
) -> tuple[ir.Binding, ...] | None:
    """Lower the bindings."""
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
        return tensors.context.refuse(
            tensor_errors.several_outputs(item.value.span.text, 1, item.value.span, count)
        )
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


def _input(call: syntax.Call, tensors: Tensors, *, in_layer: bool) -> Any:
    if in_layer:
        if call.arguments:
            return tensors.context.refuse(types.input_of_layer(call.span))
        return ir.Input(None, None, span=call.span)
    bound = values.bound(call, INPUT, tensors.context)
    if bound is BAD:
        return BAD
    given = dict(zip(("dtype", "shape"), bound.args, strict=False)) | dict(bound.kwargs)
    assume, free = given.get("assume", ()), given["shape"].count(None)
    sizes = assume if isinstance(assume, tuple) else (assume,) * max(free, 1)
    if sizes and len(sizes) != free:
        return tensors.context.refuse(
            types.sizes_of_free_axes(len(sizes), free, bound.kwarg_spans.get("assume", call.span))
        )
    return ir.Input(given["dtype"], given["shape"], sizes, span=call.span)


def _ordered(items: Sequence[syntax.Attribute], tensors: Tensors) -> list[syntax.Attribute] | None:
    """Sort bindings so that each comes after those that it needs; return None if they form a cycle.

    Bindings are identified by their position, because the first name of several of them may be `_`.
    """

    def needed(position: int) -> list[int]:
        return [position_of[name] for name in _names(items[position].value) if name in position_of]

    def report_circle(circle: list[int]) -> None:
        circles.append(circle)
        names, spans = zip(*((items[each].name, items[each].name_span) for each in circle), strict=True)
        tensors.context.reports.add(references.cycle("binding", names, spans[0], spans[1:]))

    position_of = {
        name: position for position, item in enumerate(items) for name, _ in item.names if name != UNNAMED
    }
    circles: list[list[int]] = []
    ordered = blocks.in_order(range(len(items)), needed, report_circle, first_only=True)
    return None if circles else [items[position] for position in ordered]


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
    """Lower the declaration of a parameter of a `layer` block."""
    call = item.value
    if not isinstance(call, syntax.Call):
        return BAD
    context = tensors.context
    first, second = PARAMETER.arguments
    head = syntax.Call(call.callee, call.arguments[:1], span=call.span)
    bound = values.bound(head, schema.Function("parameter", (first,)), context)
    if bound is BAD:
        return BAD
    type_ = next(iter((*bound.args, *bound.kwargs.values())))
    if len(call.arguments) == 1:
        return ir.LayerParameter(item.name, type_, span=item.span)
    second = evolve(second, type=PARAMETER_TYPES[type_])
    whole = values.bound(call, schema.Function("parameter", (first, second)), context)
    if whole is BAD:
        return BAD
    default = whole.args[1] if len(whole.args) > 1 else whole.kwargs.get("default")
    return ir.LayerParameter(item.name, type_, default, has_default=True, span=item.span)


# --- layer blocks: first the parameters of all of them, then their contents -------------------------------


class LayerReader:
    """Lowers all `layer` blocks of a spec."""

    def __init__(self, written: Sequence[syntax.Block], context: Context) -> None:
        self._context = context
        self._blocks: dict[str, syntax.Block] = {}
        first: dict[str, Span] = {}
        for block in written:
            blocks.check_label(block, BLOCKS["layer"], context)
            if block.label is None or block.label_span is None:
                context.notes.doubtful.add("layer")
                continue
            if not blocks.usable(block.label) or context.reports.is_tainted(block.label_span):
                context.notes.doubtful.add("layer")
            if blocks.once(block.label, block.label_span, first, "layer", context):
                self._blocks[block.label] = block

    def declare(self) -> None:
        """Add the layers and their parameters to the scope."""
        for name, block in self._blocks.items():
            parameters = [parameter(item, Tensors(self._context)) for item in _parameters(block)]
            known = tuple(each for each in parameters if each is not BAD)
            doubtful = self._context.reports.is_tainted(block.span)
            if doubtful or len(known) < len(parameters) or any(map(self._may_be_parameter, block.items)):
                self._context.notes.incomplete.add(name)
            self._context.layers[name] = ir.LayerBlock(name, known, span=block.header)

    def _lost(self, item: syntax.Item) -> tuple[str, ...]:
        """Return the names that an item with an error may have been meant to define."""
        own = (item.name,) if isinstance(item, syntax.Attribute) and self._may_be_parameter(item) else ()
        return (*own, *blocks.lost_names(item))

    def _may_be_parameter(self, item: syntax.Item) -> bool:
        """Whether an item with an error may have been meant as a parameter."""
        if (
            blocks.lost_names(item)
            or isinstance(item, syntax.Entry)
            or self._context.reports.is_tainted(item.span)
        ):
            return True
        value = item.value if isinstance(item, syntax.Attribute) else None
        if isinstance(value, syntax.Path):
            return nearest(value.name, flows.MAKERS) is not None or value.name in flows.MAKERS
        if not isinstance(value, syntax.Call) or value.callee.name in flows.MAKERS:
            return isinstance(value, syntax.Broken)
        return nearest(value.callee.name, flows.MAKERS) == "parameter"

    def read(self) -> tuple[ir.LayerBlock, ...] | None:
        """Lower the layers.

        A layer is lowered after those that it uses, because calls of a layer with errors cannot be checked.
        """
        read: dict[str, ir.LayerBlock | None] = {}
        for name in self._in_order():
            read[name] = self._layer(name, self._blocks[name])
            if read[name] is None:
                self._context.notes.incomplete.add(name)
        layers = [read[name] for name in self._blocks]
        return None if any(layer is None for layer in layers) else tuple(filter(None, layers))

    def _layer(self, name: str, block: syntax.Block) -> ir.LayerBlock | None:
        declared = self._context.layers[name]
        lost = frozenset(each for item in block.items for each in self._lost(item))
        spans: dict[str, Span] = {}
        context = self._context.within(
            bound=spans,
            parameters={each.name: each for each in declared.parameters},
            lost=self._context.lost | lost | {item.name for item in _parameters(block)},
        )
        tensors = Tensors(context, spans=spans)
        first: dict[str, Span] = {}
        for item in _parameters(block):
            if item.name != "output":
                blocks.once(item.name, item.name_span, first, "parameter", context)
        body = body_of(block, BLOCKS["layer"], first, context)
        output = body.own.get("output")
        kept = declare_bindings(body.bindings, tensors, first)
        read = read_bindings(kept, tensors, in_layer=True)
        given: Any = BAD if output is None else flows.expression(output.value, tensors, what="`output`")
        damaged = name in context.notes.incomplete
        if output is None and not damaged:
            context.reports.add(names.missing_output(block.header, name=name))
        if not damaged and "input" not in tensors.kinds.values():
            context.reports.add(names.missing_input(block.header, name=name))
        if read is None or given is BAD or name in context.notes.incomplete:
            return None
        spans = {} if output is None else {"output": output.value.span}
        return ir.LayerBlock(name, declared.parameters, read, given, span=block.header, spans=spans)

    def _in_order(self) -> list[str]:
        """Return the names of the layers, each after those that it uses; report cycles."""

        def report_circle(circle: list[str]) -> None:
            spans = [self._blocks[each].header for each in circle]
            self._context.reports.add(references.cycle("layer", circle, spans[0], spans[1:]))

        return blocks.in_order(self._blocks, self._needed, report_circle)

    def _needed(self, name: str) -> list[str]:
        written = syntax.attributes_in(self._blocks[name].items)
        inside = (each for item in written for each in syntax.within(item))
        called = [each.callee.name for each in inside if isinstance(each, syntax.Call)]
        return [each for each in called if each in self._blocks]


def _parameters(block: syntax.Block) -> list[syntax.Attribute]:
    return [
        item
        for item in syntax.attributes_in(block.items)
        if isinstance(item.value, syntax.Call) and item.value.callee.name == "parameter"
    ]
