"""Check that the globs of rules can match weights, as far as the names of layers say it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence

from compiler.model.elaborate import elaborate
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors
from dsl.suggest import nearest_paths

OF_WEIGHTS = ("variables", "slots")
"""The roles of rules whose globs match the names of weights."""

MOST, MOST_ADVISED = 200, 3
"""So many rules are reported, and for so many of them similar names are looked for."""

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
    starts = sorted(each.path if each.kind == "weight" else f"{each.path}/" for each in layers)
    known, told = frozenset(starts), 0
    for rule in rules:
        pattern = rule.selector.pattern
        assert pattern is not None
        if _may_match(pattern, starts, known):
            continue
        told += 1
        if told > MOST:
            return
        span = rule.selector.span
        written = span.text if span is not None else f'{rule.selector.role}("{pattern}")'
        near = _nearest(pattern, [each.path for each in layers]) if told <= MOST_ADVISED else ()
        yield errors.rule_matches_nothing(span or rule.span, selector=written, names=near)


def _may_match(pattern: str, starts: Sequence[str], known: Collection[str]) -> bool:
    """Whether a glob may match the name of a weight."""
    wildcard = _WILDCARD.search(pattern)
    plain = pattern if wildcard is None else pattern[: wildcard.start()]
    if any(plain[:end] in known for end in range(1, len(plain) + 1)):
        return True
    at = bisect_left(starts, plain)
    return wildcard is not None and at < len(starts) and starts[at].startswith(plain)


def _nearest(pattern: str, layers: Sequence[str]) -> Sequence[str]:
    """Return the globs that are most similar to one and begin with the name of a layer."""
    if pattern in layers:
        return (f"{pattern}/*",)
    parts = pattern.split("/")
    return nearest_paths(pattern, ["/".join([each, *parts[each.count("/") + 1 :]]) for each in layers])
