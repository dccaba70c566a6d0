"""Check that the globs of rules can match weights, as far as the names of layers say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from compiler.model.elaborate import elaborate
from compiler.model.graph import LayerNode
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors.planning import plan as errors
from dsl.suggest import nearest_paths

OF_WEIGHTS = ("variables", "slots")
"""The roles of rules whose globs match the names of weights."""

_WILDCARD = re.compile(r"[*?[]")


def globs_can_match(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report every rule for weights whose glob begins like the weights of no layer.

    The name of a weight begins with that of its layer, which follows from the spec; the rest is Keras's. The
    compiler checks the whole names.

    Args:
        spec: The spec.
        topology: Its devices, on which names do not depend.
    """
    del topology
    rules = [each for each in spec.place.rules if each.selector.role in OF_WEIGHTS and each.selector.pattern]
    if not rules:
        return
    try:
        layers = [each for each in elaborate(spec).layers if each.kind != "operation"]
    except SpecError:
        return  # the check of shapes reports it
    for rule in rules:
        pattern = rule.selector.pattern
        assert pattern is not None
        if any(_may_match(pattern, each) for each in layers):
            continue
        span = rule.selector.span
        written = span.text if span is not None else f'{rule.selector.role}("{pattern}")'
        near = _nearest(pattern, [each.path for each in layers])
        yield errors.rule_matches_nothing(written, near, span or rule.span)


def _may_match(pattern: str, layer: LayerNode) -> bool:
    """Whether a glob may match the name of a weight of a layer."""
    start = layer.path if layer.kind == "weight" else f"{layer.path}/"
    wildcard = _WILDCARD.search(pattern)
    if wildcard is None:
        return pattern.startswith(start)
    plain = pattern[: wildcard.start()]
    return plain.startswith(start) or start.startswith(plain)


def _nearest(pattern: str, layers: Sequence[str]) -> Sequence[str]:
    """Return the globs that are most similar to one and begin with the name of a layer.

    Args:
        pattern: The glob.
        layers: The names of all layers with weights.
    """
    if pattern in layers:
        return (f"{pattern}/*",)
    parts = pattern.split("/")
    return nearest_paths(pattern, ["/".join([each, *parts[each.count("/") + 1 :]]) for each in layers])
