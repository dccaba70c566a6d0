"""Bodies of nodes as records of the language: chains become flows, sums and products are written in place."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from dsl import ir
from tfdeploy.onramp.body import At, Body, Node
from tfdeploy.onramp.graph import RESERVED, free_name

MOST_INLINE = 4
"""How many operations an expression may have before parts of it get names."""


def bindings_of(body: Body, taken: set[str]) -> tuple[tuple[ir.Binding, ...], list[ir.Expr]]:
    """Return the bindings of a body without its inputs, and its outputs.

    Args:
        body: The body.
        taken: Names that no binding may have; those of the bindings are added.
    """
    writer = _Writer(body, body.uses(), taken)
    return writer.written()


@define
class _Writer:
    body: Body
    uses: dict[int, int]
    taken: set[str]
    bindings: list[ir.Binding] = field(factory=list)
    _names: dict[int, str] = field(factory=dict)
    _open: dict[int, ir.Expr] = field(factory=dict)
    _words: dict[int, str] = field(factory=dict)

    def written(self) -> tuple[tuple[ir.Binding, ...], list[ir.Expr]]:
        self._names.update(self.body.inputs)
        for name, step in self.body.shared.items():
            self.taken.add(name)
            self.bindings.append(ir.Binding(name, ir.SharedLayer(step)))
        for node in self.body.nodes:
            if node.kind == "weight":
                self._names[node.outputs[0]] = name = free_name(node.name, self.taken)
                self.bindings.append(ir.Binding(name, ir.Weight(node.call)))
                continue
            made = self._expression(node)
            if len(node.outputs) == 1:
                self._open[node.outputs[0]] = made
                self._words[node.outputs[0]] = node.name
            else:
                names = [
                    free_name(node.name, self.taken) if each in self.uses else "_" for each in node.outputs
                ]
                self.bindings.append(ir.Binding(names[0], made, tuple(names[1:])))
                self._names.update(zip(node.outputs, names, strict=True))
        outputs = [self._named(each) for each in self.body.outputs]
        return tuple(self.bindings), outputs

    def _named(self, value: int) -> ir.Expr:
        """Return a reference to a value, which gets a binding unless it has one."""
        if value not in self._names:
            self._names[value] = free_name(self._words[value], self.taken)
            self.bindings.append(ir.Binding(self._names[value], self._open.pop(value)))
        return ir.Ref(self._names[value])

    def _inline(self, value: int, *, flows: bool) -> ir.Expr:
        """Return what makes a value if it is used here alone and short enough, else a reference to it."""
        made = self._open.get(value)
        if made is None or self.uses[value] > 1 or (isinstance(made, ir.Flow) and not flows):
            return self._named(value)
        if not isinstance(made, ir.Flow) and _size(made) > MOST_INLINE:
            return self._named(value)
        return self._open.pop(value)

    def _expression(self, node: Node) -> ir.Expr:
        if node.kind == "operation":
            return self._operation(node)
        if node.kind == "index":
            tensor = self._inline(node.inputs[0], flows=False)
            return ir.Index(tensor, tuple(self._filled(each, node) for each in node.call.args))
        given = {key: self._filled(each, node) for key, each in node.given.items()}
        step = ir.Step(node.kind, node.call, given=given)  # type: ignore[arg-type] # weights are bound
        if node.count > 1:
            step = ir.Step("repeat", ir.Call("repeat"), node.count, step)
        sources = node.inputs[: node.sources]
        if len(sources) == 1:
            source = self._inline(sources[0], flows=True)
        else:
            source = ir.Group(tuple(self._named(each) for each in sources))
        if isinstance(source, ir.Flow):
            return ir.Flow(source.source, (*source.steps, step))
        return ir.Flow(source, (step,))

    def _operation(self, node: Node) -> ir.Operation:
        args = tuple(self._filled(each, node) for each in node.call.args)
        kwargs = {key: self._filled(each, node) for key, each in node.call.kwargs.items()}
        return ir.Operation(node.call.name, args, kwargs)

    def _filled(self, argument: Any, node: Node) -> Any:
        """Return an argument with tensors in the places that stand for them."""
        if isinstance(argument, At):
            return self._inline(node.inputs[argument.number], flows=False)
        if isinstance(argument, tuple):
            filled = tuple(self._filled(each, node) for each in argument)
            is_group = any(isinstance(each, ir.Ref | ir.Flow | ir.Index | ir.Operation) for each in filled)
            return ir.Group(filled) if is_group else filled
        return argument


def _size(expression: Any) -> int:
    """Return how many operations an expression has."""
    if isinstance(expression, ir.Operation):
        return 1 + sum(map(_size, (*expression.args, *expression.kwargs.values())))
    if isinstance(expression, ir.Index):
        return 1 + _size(expression.tensor)
    return sum(map(_size, expression.items)) if isinstance(expression, ir.Group) else 0


def layer_block(body: Body, block_names: set[str]) -> ir.LayerBlock:
    """Return the `layer` block of a body."""
    inputs = tuple(ir.Binding(each, ir.Input(None, None)) for each in body.inputs.values())
    names = {*block_names, *body.inputs.values(), *(each.name for each in body.parameters), *RESERVED}
    bindings, outputs = bindings_of(body, names)
    output: ir.Expr = outputs[0] if len(outputs) == 1 else ir.Group(tuple(outputs))
    last = bindings[-1] if bindings else None
    if last is not None and output == ir.Ref(last.name) and not last.others:
        bindings, output = bindings[:-1], last.value  # type: ignore[assignment] # a flow comes last
    return ir.LayerBlock(body.name, body.parameters, (*inputs, *bindings), output)
