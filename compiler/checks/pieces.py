"""Check that variables and slots can be cut as rules say, as far as shapes are certain without Keras."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from math import prod
from typing import Any

from attrs import frozen

from compiler.compatibility import JOINING
from compiler.model.elaborate import model_if_known
from compiler.model.graph import LayerNode, ModelGraph
from compiler.model.shapes import known_shapes
from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import pieces_of
from compiler.reasons import Reason
from compiler.topology import Topology
from compiler.towers import clone_count
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors

FLOAT_BYTES = 4
"""The bytes of an element of a weight whose layer has no `dtype`; `precision` does not change them."""

MATRIX_AXES = 2
"""The axes of the weights that `Muon` makes orthogonal."""


@frozen
class _Weight:
    """A weight whose shape follows from the spec alone."""

    name: str
    shape: tuple[int, ...]
    layer: LayerNode


def pieces_have_an_axis(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report the first weight of an embedding or a dense layer that lacks the axis along which it is cut.

    Other weights have shapes that only Keras knows. The compiler checks them.
    """
    rules = spec.place.rules
    if not any(isinstance(each.target, ir.Sharded) and each.target.axis for each in rules):
        return
    book = Rulebook(rules, topology)
    for weight in _certain_weights(spec):
        try:
            pieces_of(book, weight.name, weight.shape, 0)
        except SpecError as fault:
            yield from fault.diagnostics
            return


def optimizers_take_pieces(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report weights of embeddings and dense layers that are cut, if their optimizer needs the whole weight.

    They are in pieces, or each clone keeps a part of their slots. The compiler checks the other weights, and
    a `Muon` that is told to leave layers out.
    """
    rules = spec.place.rules
    groups = spec.update.optimizers
    if not any(isinstance(each.target, ir.Sharded | ir.OverClones) for each in rules):
        return
    if not any(each.optimizer.name in ("Muon", *JOINING) for each in groups):
        return
    book, clones = Rulebook(rules, topology), clone_count(spec, topology)
    for weight in _certain_weights(spec):
        group = next((each for each in groups if fnmatchcase(weight.name, each.pattern)), None)
        if group is None or not _needs_whole(group.optimizer, weight) or _may_be_frozen(spec, weight):
            continue
        size = 0 if "dtype" in weight.layer.call.kwargs else prod(weight.shape) * FLOAT_BYTES
        optimizer = f"`{group.optimizer.name}`"
        variables, slots = (book.decide(role, weight.name) for role in ("variables", "slots"))
        if pieces_of(book, weight.name, weight.shape, size):  # nothing is certain of no bytes and `min_size`
            rule = None if variables is None else variables.span
            what = f"the optimizer, {optimizer},"
            yield errors.needs_whole(
                group.optimizer.span, name=weight.name, what=what, reason=errors.JOINED, rule=rule
            )
        elif clones > 1 and variables is not None and slots is not None and _are_parts(variables, slots):
            at = group.optimizer.span
            yield errors.update_needs_whole(at, name=weight.name, what=optimizer, rule=slots.span)


def _are_parts(variables: Reason, slots: Reason) -> bool:
    """Whether several clones have copies of a weight, and each keeps a part of its slots."""
    copied = isinstance(variables.target, ir.Replicated | ir.GroupMember)
    return copied and isinstance(slots.target, ir.OverClones)


def _needs_whole(optimizer: ir.Call, weight: _Weight) -> bool:
    """Whether an optimizer surely needs the whole of a weight for the update of each element.

    `Muon` updates matrices by their singular vectors, and what is called an embedding like `AdamW`, unless it
    is told not to.
    """
    if optimizer.name != "Muon":
        return optimizer.name in JOINING
    if optimizer.kwargs.get("exclude_layers"):
        return False
    spared = optimizer.kwargs.get("exclude_embeddings", True) is not False
    return len(weight.shape) == MATRIX_AXES and not (spared and "embedding" in weight.name.lower())


def _may_be_frozen(spec: ir.Spec, weight: _Weight) -> bool:
    adapted = "lora_rank" in weight.layer.call.kwargs
    return (
        adapted
        or weight.layer.frozen
        or any(fnmatchcase(weight.name, each) for each in spec.update.freeze or ())
    )


def _certain_weights(spec: ir.Spec) -> Iterator[_Weight]:
    """Yield free weights, and those of embeddings and dense layers whose shapes follow from the spec."""
    graph = model_if_known(spec)
    if graph is None:
        return
    inputs = _sizes_of_inputs(graph)
    for at, node in enumerate(graph.layers):
        if node.kind == "weight":
            yield _Weight(f"{node.path}/weight", node.weight_shape, node)
        for name, shape in _certain(node.call, inputs.get(at)) if node.kind == "layer" else ():
            yield _Weight(f"{node.path}/{name}", shape, node)


def _sizes_of_inputs(graph: ModelGraph) -> dict[int, int]:
    """Return the length of the last axis of what reaches each layer, by its number, if this is certain."""
    values = known_shapes(graph).values
    found: dict[int, int] = {}
    for call in graph.calls:
        shape = values[call.inputs[0]] if len(call.inputs) == 1 else None
        if shape and shape[-1] is not None:
            found.setdefault(call.layer, shape[-1])
    return found


def _certain(call: ir.Call, size: int | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names and shapes of weights of a layer that follow from its arguments and its input."""
    if call.name == "Embedding":
        shape = (_given(call, 0, "input_dim"), _given(call, 1, "output_dim"))
        if all(isinstance(each, int) for each in shape):
            yield "embeddings", shape
    elif call.name == "Dense":
        units = _given(call, 0, "units")
        if isinstance(units, int) and size is not None:
            yield "kernel", (size, units)
        if isinstance(units, int) and call.kwargs.get("use_bias", True) is True:
            yield "bias", (units,)


def _given(call: ir.Call, at: int, name: str) -> Any:
    return call.args[at] if at < len(call.args) else call.kwargs.get(name)
