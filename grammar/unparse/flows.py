"""The text of `model` and `layer` blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import ir, schema
from dsl.schema import signatures
from dsl.schema import types as kinds
from grammar.format import WIDTH
from grammar.lower.expressions.keras_functions import keras_function
from grammar.unparse.values import called, plain, quoted, value

if TYPE_CHECKING:
    from collections.abc import Iterator

_INDENT = "  "


def model(given: ir.Model) -> str:
    """Return the text of the `model` block."""
    lines = [*_bindings(given.bindings)]
    if given.loss:
        lines.append(f"loss = {_loss(given.loss)}")
    if given.regularize is not None:
        lines.append(f"regularize = {value(given.regularize, kinds.keras('regularizer'))}")
    if given.output is not None:
        lines.append(f"output = {expression(given.output)}")
    if given.metrics:
        metrics = [f"{each.name} = {_objective(each.objective, 'metric')}" for each in given.metrics]
        lines.append(_block("metrics", metrics))
    return _block(f"model {quoted(given.name)}", lines)


def layer(given: ir.LayerBlock) -> str:
    """Return the text of a `layer` block."""
    lines = []
    for each in given.parameters:
        default = f", {value(each.default)}" if each.has_default else ""
        lines.append(f"{each.name} = parameter({each.type}{default})")
    lines += _bindings(given.bindings)
    if given.output is not None:
        lines.append(f"output = {expression(given.output)}")
    return _block(f"layer {quoted(given.name)}", lines)


def expression(given: ir.Expr) -> str:
    """Return the text of a reference, a list of tensors or a flow."""
    if isinstance(given, ir.Ref):
        return given.name
    if isinstance(given, ir.Group):
        return f"[{', '.join(expression(each) for each in given.items)}]"
    return " -> ".join(_flow(given))


def step(given: ir.Step) -> str:
    """Return the text of one step of a flow."""
    if given.kind == "shared":
        return given.call.name
    if given.kind == "repeat" and given.inner is not None:
        return f"repeat({value(given.count)}, {step(given.inner)})"
    if given.kind == "python":
        return called(given.call, schema.function("source", "python"))
    if given.kind == "block":
        return called(given.call, None)
    category, name = "layer", given.call.name
    if given.kind == "application":
        category, name = "application", name.rpartition(".")[2]
    signature = signatures.find(category, name)
    return called(given.call, None if signature is None else keras_function(signature))


def _flow(given: ir.Flow) -> list[str]:
    source = expression(given.source)
    return [
        f"({source})" if isinstance(given.source, ir.Flow) else source,
        *(step(each) for each in given.steps),
    ]


def _bindings(bindings: tuple[ir.Binding, ...]) -> Iterator[str]:
    for each in bindings:
        yield f"{each.name} = {_bound(each.value, len(each.name))}"


def _bound(given: ir.Input | ir.SharedLayer | ir.Expr, width: int) -> str:
    if isinstance(given, ir.Input):
        if given.dtype is None or given.shape is None:
            return "input()"
        return f"input({given.dtype}, {value(given.shape)})"
    if isinstance(given, ir.SharedLayer):
        return f"layer({step(given.step)})"
    text = expression(given)
    one_step = not isinstance(given, ir.Flow) or len(given.steps) == 1
    if one_step and width + len(text) + len("    = ") <= WIDTH:
        return text
    return f"\n{_INDENT}-> ".join(_flow(given)) if isinstance(given, ir.Flow) else text


def _loss(terms: tuple[ir.LossTerm, ...]) -> str:
    if len(terms) == 1 and terms[0].weight == 1:
        return _objective(terms[0].objective, "loss")
    texts = []
    for each in terms:
        weight = "" if each.weight == 1 else f"{plain(each.weight)} * "
        texts.append(f"{weight}({_objective(each.objective, 'loss')})")
    return " + ".join(texts)


def _objective(given: ir.Objective, category: str) -> str:
    pair = f"[{expression(given.target)}, {expression(given.prediction)}]"
    return f"{pair} -> {value(given.call, kinds.keras(category))}"


def _block(header: str, lines: list[str]) -> str:
    """Return the text of a block; each of `lines` may be several lines."""
    inside = "".join(f"{line}\n" for line in lines)
    return f"{header} {{\n{inside}}}"
