"""A lint that every placement rule has an effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import lint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl import ir
    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def ineffective_rules(facts: Facts) -> Iterator[Diagnostic]:
    """Report rules that a later rule for the same ops, or for all ops, overrides completely."""
    rules = () if facts.place is None else facts.place.rules
    found: list[Diagnostic] = []
    later: dict[tuple[str, str | None], ir.Rule] = {}
    for rule in reversed(rules):
        role, pattern = rule.selector.role, rule.selector.pattern
        over = later.get((role, None)) or later.get((role, pattern))
        if over is not None and rule.span is not None and over.span is not None:
            found.append(lint.ineffective_rule(rule.span, later=over.span))
        later[role, None if pattern == "*" else pattern] = rule
    yield from reversed(found)
