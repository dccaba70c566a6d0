"""The `layer` blocks: first the parameters of all of them, then their contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl import ir, syntax
from dsl.errors import names, references
from dsl.schema import BLOCKS
from dsl.suggest import nearest
from grammar.lower import blocks
from grammar.lower.context import BAD, Context
from grammar.lower.network import bindings, flows
from grammar.lower.network.flows import Tensors
from grammar.lower.network.model import lost_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.source import Span


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
            parameters = [bindings.parameter(item, Tensors(self._context)) for item in _parameters(block)]
            known = tuple(each for each in parameters if each is not BAD)
            doubtful = self._context.reports.is_tainted(block.span)
            if doubtful or len(known) < len(parameters) or any(map(self._may_be_parameter, block.items)):
                self._context.notes.incomplete.add(name)
            self._context.layers[name] = ir.LayerBlock(name, known, span=block.header)

    def _lost(self, item: syntax.Item) -> tuple[str, ...]:
        """Return the names that an item with an error may have been meant to define."""
        own = (item.name,) if isinstance(item, syntax.Attribute) and self._may_be_parameter(item) else ()
        return (*own, *lost_names(item))

    def _may_be_parameter(self, item: syntax.Item) -> bool:
        """Whether an item with an error may have been meant as a parameter."""
        if lost_names(item) or isinstance(item, syntax.Entry) or self._context.reports.is_tainted(item.span):
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

        Returns:
            The layers in the order in which they are written, or None if one has an error.
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
        written, output = _sorted(block, first, context)
        kept = bindings.declare(written, tensors, first)
        read = bindings.read(kept, tensors, in_layer=True)
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
        done: dict[str, None] = {}
        for start in self._blocks:
            path = {start: None} if start not in done else {}
            waiting = [self._needed(start)] if path else []
            while waiting:
                following = next((each for each in waiting[-1] if each not in done), None)
                if following is None:
                    waiting.pop()
                    done[path.popitem()[0]] = None
                elif following in path:
                    circle = [*path][[*path].index(following) :]
                    spans = [self._blocks[each].header for each in circle]
                    self._context.reports.add(references.cycle("layer", circle, spans[0], spans[1:]))
                    done.update(dict.fromkeys(circle))
                else:
                    path[following] = None
                    waiting.append(self._needed(following))
        return list(done)

    def _needed(self, name: str) -> Iterator[str]:
        written = syntax.attributes_in(self._blocks[name].items)
        inside = (each for item in written for each in syntax.within(item))
        called = [each.callee.name for each in inside if isinstance(each, syntax.Call)]
        return iter([each for each in called if each in self._blocks])


def _parameters(block: syntax.Block) -> list[syntax.Attribute]:
    return [
        item
        for item in syntax.attributes_in(block.items)
        if isinstance(item.value, syntax.Call) and item.value.callee.name == "parameter"
    ]


def _sorted(
    block: syntax.Block, first: dict[str, Span], context: Context
) -> tuple[list[syntax.Attribute], syntax.Attribute | None]:
    """Return the bindings and the output of a `layer` block."""
    parameters = _parameters(block)
    written: list[syntax.Attribute] = []
    output: syntax.Attribute | None = None
    for item in block.items:
        if isinstance(item, syntax.Attribute):
            parameter = any(item is each for each in parameters)
            if parameter and item.name == "output":
                context.reports.add(
                    names.reserved(item.name_span, name="output", why="it is what the layer gives")
                )
            elif item.name == "output":
                if blocks.once("output", item.name_span, first, "attribute", context):
                    output = item
            elif not parameter:
                written.append(item)
        elif isinstance(item, syntax.Block):
            blocks.unknown_block(item, (), ("output",), "`layer`", context)
        elif not isinstance(item.value, syntax.Broken):
            blocks.misplaced(item, "`layer`", context)
    return written, output
