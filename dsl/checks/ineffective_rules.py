"""Lint: every placement rule decides something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import lint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl import ir
    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def ineffective_rules(facts: Facts) -> Iterator[Diagnostic]:
    """Report rules after which comes one for the same, or for all of it."""
    rules = () if facts.place is None else facts.place.rules
    for at, rule in enumerate(rules):
        later = next((each for each in rules[at + 1 :] if _covers(each.selector, rule.selector)), None)
        if later is not None and rule.span is not None and later.span is not None:
            yield lint.ineffective_rule(rule.span, later.span)


def _covers(later: ir.Selector, earlier: ir.Selector) -> bool:
    return later.role == earlier.role and later.pattern in {None, "*", earlier.pattern}
