"""Check that rules with globs match something and decide something, once the model's names are known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors.meaning import lint
from dsl.errors.planning import plan as errors
from dsl.suggest import nearest_paths

Names = Mapping[str, Collection[str]]  # role -> the names that its globs can match


def rules_match(rules: Sequence[ir.Rule], names: Names) -> Iterator[Diagnostic]:
    """Report every rule whose glob matches none of the names of its role, with the nearest names.

    Args:
        rules: The rules of `place`, in the order of the spec.
        names: The names that globs of a role can match, by role. Rules of a role that is missing are not
            checked.
    """
    for rule in rules:
        pattern, known = rule.selector.pattern, names.get(rule.selector.role)
        if pattern is not None and known is not None and not _matching(rule, known):
            span = rule.selector.span or rule.span
            yield errors.rule_matches_nothing(_written(rule), nearest_paths(pattern, known), span)


def rules_decide(rules: Sequence[ir.Rule], names: Names) -> Iterator[Diagnostic]:
    """Warn of every rule that never decides, because later rules match everything that it matches.

    A rule that is followed by a rule for the same glob, or for everything, is left out because it has been
    reported when the spec was read.

    Args:
        rules: The rules of `place`, in the order of the spec.
        names: The names that globs of a role can match, by role. Rules of a role that is missing are not
            checked.
    """
    for at, rule in enumerate(rules):
        if any(_is_plainly_over(later, rule) for later in rules[at + 1 :]):
            continue
        known = names.get(rule.selector.role)
        left = _matching(rule, known) if known is not None else set()
        for later in rules[at + 1 :]:
            if left and later.selector.role == rule.selector.role:
                left -= _matching(later, left)
                if not left and rule.span is not None and later.span is not None:
                    yield lint.ineffective_rule(rule.span, later.span)


def _is_plainly_over(later: ir.Rule, rule: ir.Rule) -> bool:
    """Whether a later rule matches everything that a rule matches, whatever names there are."""
    selector = later.selector
    return selector.role == rule.selector.role and selector.pattern in (None, "*", rule.selector.pattern)


def _matching(rule: ir.Rule, names: Collection[str]) -> set[str]:
    pattern = rule.selector.pattern
    return {name for name in names if pattern is None or fnmatchcase(name, pattern)}


def _written(rule: ir.Rule) -> str:
    span = rule.selector.span
    return span.text if span is not None else f'{rule.selector.role}("{rule.selector.pattern}")'
