"""Check that a rule for updates has sums to place; copies have theirs where they are."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.compatibility import layout_of, replication_of, variable_rules
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import lint


def updates_place_sums(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Warn of a rule for updates that places nothing, whatever the gradients are.

    That is so if every clone has a copy of every variable, and if workers with graphs of their own apply what
    they have computed.

    Args:
        spec: The spec, as read and checked without devices.
        topology: Not used; every check of this folder takes the devices.
    """
    del topology
    rule = _rule(spec)
    if rule is None or rule.span is None:
        return
    update, copied = spec.update, _copying_rule(spec)
    if update.mode == "sync" and copied is not None:
        reason = "each copy of a replicated variable gets its sum where it is"
        yield lint.rule_without_sums(rule.span, reason=reason, copies=copied.span)
    elif update.mode == "async" and replication_of(spec) == "between_graph":
        yield lint.rule_without_sums(rule.span, reason=own_gradients("worker", update.mode))


def own_gradients(who: str, mode: str) -> str:
    """Return the sentence that no gradients are summed, because each clone or worker applies its own."""
    return f"with `mode = {mode}`, every {who} applies its own gradients where the variables are"


def _rule(spec: ir.Spec) -> ir.Rule | None:
    """Return the rule that decides on updates; one that it overrules is reported by itself."""
    rules = [each for each in spec.place.rules if each.selector.role == "updates"]
    return rules[-1] if rules else None


def _copying_rule(spec: ir.Spec) -> ir.Rule | None:
    """Return the rule by which every clone has a copy of every variable, or None if some have one place."""
    rules = variable_rules(spec)
    if not rules or rules[0].selector.pattern not in (None, "*"):
        return None
    return rules[0] if all(layout_of(each.target) == "replicated" for each in rules) else None
