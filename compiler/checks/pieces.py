"""Check that variables have the axes along which rules cut them, as far as their shapes are certain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.model.elaborate import elaborate
from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import pieces_of
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError


def pieces_have_an_axis(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report the first table of an embedding, or bias, that is cut along an axis which it does not have.

    Other weights have shapes that only Keras knows. The compiler checks them.

    Args:
        spec: The spec.
        topology: Its devices.
    """
    rules = spec.place.rules
    if not any(isinstance(each.target, ir.Sharded) and each.target.axis for each in rules):
        return
    try:
        graph = elaborate(spec)
    except SpecError:
        return  # the check of shapes reports it
    book = Rulebook(rules, topology)
    for node in graph.layers:
        for name, shape in _certain(node.call) if node.kind == "layer" else ():
            try:
                pieces_of(book, f"{node.path}/{name}", shape, 0)
            except SpecError as fault:
                yield from fault.diagnostics
                return


def _certain(call: ir.Call) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names and shapes of weights of a layer that follow from its arguments alone."""
    if call.name == "Embedding":
        shape = (_given(call, 0, "input_dim"), _given(call, 1, "output_dim"))
        if all(isinstance(each, int) for each in shape):
            yield "embeddings", shape
    elif call.name == "Dense":
        units = _given(call, 0, "units")
        if isinstance(units, int) and call.kwargs.get("use_bias", True) is True:
            yield "bias", (units,)


def _given(call: ir.Call, at: int, name: str) -> Any:
    return call.args[at] if at < len(call.args) else call.kwargs.get(name)
