"""What is shown of the reason for a place: the rule or default, and what it goes through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.shown import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.mapping.explanation import Explanation
    from dsl.ir import Rule


def summary(explanation: Explanation) -> Summary:
    """Return what is shown of an explanation."""
    return Summary(f"{explanation.name} is on {explanation.requested}", tuple(_facts(explanation)))


def _facts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    clone = f", clone {explanation.clone}" if explanation.clone is not None else ""
    yield "kind", f"{explanation.type}, {explanation.role}{clone}"
    for link in explanation.chain[1:]:
        yield "follows", f"the {link.kind} {link.name}"
    decider = explanation.decider
    if decider.rule is not None and decider.rule.span is not None:
        yield "placed by", _where(decider.rule)
    else:
        yield "placed by", f"the default {decider.text}: no rule matches it"
    for rule in explanation.beaten:
        yield "not by", f"{_where(rule)}, which matches too, and comes earlier"


def _where(rule: Rule) -> str:
    span = rule.span
    if span is None:
        return str(rule)
    return f"{' '.join(span.text.split())} ({span.source.name}:{span.begin.line})"
