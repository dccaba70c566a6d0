"""Check that rules with globs match something and decide something, once the model's names are known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from compiler.checks.sums import own_gradients
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import lint
from dsl.errors import plan as errors
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
            yield errors.rule_matches_nothing(
                span, selector=_written(rule), names=nearest_paths(pattern, known)
            )


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
                    yield lint.ineffective_rule(rule.span, later=later.span)


def rules_place(spec: ir.Spec, deciding: Collection[ir.Rule]) -> Iterator[Diagnostic]:
    """Warn of every rule that is the reason of nothing in a graph.

    A rule that a later one plainly overrules is left out, as in `rules_decide`.
    """
    rules = spec.place.rules
    for at, rule in enumerate(rules):
        plainly = any(_is_plainly_over(later, rule) for later in rules[at + 1 :])
        cuts = isinstance(rule.target, ir.OverClones)  # also the sums of what has no slots
        if rule.span is not None and not (plainly or cuts or rule in deciding):
            yield lint.rule_without_things(rule.span, reason=_nothing(rule.selector.role, spec))


def _nothing(role: str, spec: ir.Spec) -> str:
    """Say why a rule of a role decides nothing, although none overrules it."""
    if role == "updates" and spec.update.mode != "sync":
        return own_gradients("clone", spec.update.mode)
    return _NOTHING.get(
        role, "whatever it could place is placed by other rules, or is where something else is"
    )


_NOTHING = {
    "updates": "each copy of a replicated variable gets its sum where it is",
    "slots": "the optimizer keeps no slots of these weights, and `ema` no averages",
    "summaries": "with `summaries = none` there are no summaries",
}
"""Why a rule decides nothing, by its role."""


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
