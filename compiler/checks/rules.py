"""Checks of the rules of a spec: that they match something, and decide something.

Before the model is traced, the names of layers are known, and afterwards those of all weights.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from compiler.compatibility import layout_of, replication_of, variable_rules
from compiler.model.elaborate import model_if_known
from compiler.plan import Plan
from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import layers as weight_errors
from dsl.errors import lint
from dsl.errors import plan as errors
from dsl.suggest import nearest_paths

OF_WEIGHTS = ("variables", "slots")
"""The roles of rules whose globs match the names of weights."""

MOST, MOST_ADVISED = 200, 3
"""So many rules are reported, and for so many of them similar names are looked for."""

SUMS_BESIDE_COPIES = "each copy of a replicated variable gets its sum where it is"
"""Why a rule for updates places nothing if every clone has a copy of every variable."""

_WILDCARD = re.compile(r"[*?[]")

Names = Mapping[str, Collection[str]]
"""The names that the globs of a role can match, by role; rules of a role that is missing are not checked."""


def _matching(pattern: str | None, names: Collection[str]) -> set[str]:
    return {name for name in names if pattern is None or fnmatchcase(name, pattern)}


def _written(selector: ir.Selector) -> str:
    return selector.span.text if selector.span is not None else f'{selector.role}("{selector.pattern}")'


def _own_gradients(who: str, mode: str) -> str:
    """Return the sentence that no gradients are summed, because each clone or worker applies its own."""
    return f"with `mode = {mode}`, every {who} applies its own gradients where the variables are"


# --- before the model is traced ---------------------------------------------------------------------------


def globs_can_match(spec: ir.Spec, _topology: Topology) -> Iterator[Diagnostic]:
    """Report every rule for weights whose glob begins like the weights of no layer.

    The name of a weight begins with that of its layer, which follows from the spec; the rest is Keras's. The
    compiler checks the whole names.
    """
    rules = [each for each in spec.place.rules if each.selector.role in OF_WEIGHTS and each.selector.pattern]
    model = model_if_known(spec) if rules else None
    if model is None:
        return
    layers = [each for each in model.layers if each.kind != "operation"]
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
        near = _nearest(pattern, [each.path for each in layers]) if told <= MOST_ADVISED else ()
        span = rule.selector.span or rule.span
        yield errors.rule_matches_nothing(span, selector=_written(rule.selector), names=near)


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


def updates_place_sums(spec: ir.Spec, _topology: Topology) -> Iterator[Diagnostic]:
    """Warn of a rule for updates that places nothing, whatever the gradients are.

    That is so if every clone has a copy of every variable, and if workers with graphs of their own apply what
    they have computed.
    """
    rules = [each for each in spec.place.rules if each.selector.role == "updates"]
    if not rules or rules[-1].span is None:  # a rule that the last one overrules is reported by itself
        return
    update, copied = spec.update, _copying_rule(spec)
    if update.mode == "sync" and copied is not None:
        yield lint.rule_without_sums(rules[-1].span, reason=SUMS_BESIDE_COPIES, copies=copied.span)
    elif update.mode == "async" and replication_of(spec) == "between_graph":
        yield lint.rule_without_sums(rules[-1].span, reason=_own_gradients("worker", update.mode))


def _copying_rule(spec: ir.Spec) -> ir.Rule | None:
    """Return the rule by which every clone has a copy of every variable, or None if some have one place."""
    rules = variable_rules(spec)
    if not rules or rules[0].selector.pattern not in (None, "*"):
        return None
    return rules[0] if all(layout_of(each.target) == "replicated" for each in rules) else None


# --- once the names of all weights are known --------------------------------------------------------------


def rules_match(rules: Sequence[ir.Rule], names: Names) -> Iterator[Diagnostic]:
    """Report every rule whose glob matches none of the names of its role, with the nearest names."""
    for rule in rules:
        pattern, known = rule.selector.pattern, names.get(rule.selector.role)
        if pattern is not None and known is not None and not _matching(pattern, known):
            near = nearest_paths(pattern, known)
            span = rule.selector.span or rule.span
            yield errors.rule_matches_nothing(span, selector=_written(rule.selector), names=near)


def rules_decide(rules: Sequence[ir.Rule], names: Names) -> Iterator[Diagnostic]:
    """Warn of every rule that never decides, because later rules match everything that it matches.

    A rule that is followed by a rule for the same glob, or for everything, is left out because it has been
    reported when the spec was read.
    """
    for at, rule in enumerate(rules):
        if _is_plainly_overruled(rules, at):
            continue
        left = _matching(rule.selector.pattern, names.get(rule.selector.role, ()))
        for later in rules[at + 1 :]:
            if left and later.selector.role == rule.selector.role:
                left -= _matching(later.selector.pattern, left)
                if not left and rule.span is not None and later.span is not None:
                    yield lint.ineffective_rule(rule.span, later=later.span)


def rules_place(spec: ir.Spec, deciding: Collection[ir.Rule]) -> Iterator[Diagnostic]:
    """Warn of every rule that is the reason of nothing in a graph.

    A rule that a later one plainly overrules is left out, as in `rules_decide`.
    """
    rules = spec.place.rules
    for at, rule in enumerate(rules):
        cuts = isinstance(rule.target, ir.OverClones)  # also the sums of what has no slots
        if rule.span is not None and not (_is_plainly_overruled(rules, at) or cuts or rule in deciding):
            yield lint.rule_without_things(rule.span, reason=_nothing(rule.selector.role, spec))


def _nothing(role: str, spec: ir.Spec) -> str:
    """Say why a rule of a role decides nothing, although none overrules it."""
    if role == "updates" and spec.update.mode != "sync":
        return _own_gradients("clone", spec.update.mode)
    return _NOTHING.get(
        role, "whatever it could place is placed by other rules, or is where something else is"
    )


_NOTHING = {
    "updates": SUMS_BESIDE_COPIES,
    "slots": "the optimizer keeps no slots of these weights, and `ema` no averages",
    "summaries": "with `summaries = none` there are no summaries",
}
"""Why a rule decides nothing, by its role."""


def _is_plainly_overruled(rules: Sequence[ir.Rule], at: int) -> bool:
    """Whether a later rule matches everything that a rule matches, whatever names there are."""
    own, later = rules[at].selector, (each.selector for each in rules[at + 1 :])
    return any(each.role == own.role and each.pattern in (None, "*", own.pattern) for each in later)


def globs_match(plan: Plan, names: Collection[str]) -> Iterator[Diagnostic]:
    """Report globs of `freeze` and of the block `weights` that match no weight, and files for no weights."""
    update = plan.spec.update
    for glob in dict.fromkeys(update.freeze or ()):
        if not _matching(glob, names):
            near = nearest_paths(glob, names)
            yield weight_errors.freeze_matches_nothing(update.span_of("freeze"), glob=glob, names=near)
    for rule in plan.spec.train.part_weights:
        if not _matching(rule.pattern, names):
            near = nearest_paths(rule.pattern, names)
            yield weight_errors.part_matches_nothing(rule.span, glob=rule.pattern, file=rule.file, names=near)
    for start in plan.model.starts:
        if not _matching(start.pattern, names):
            yield weight_errors.step_without_weights(start.span, file=start.file)


def recomputation_matches(plan: Plan, layers: Collection[str]) -> Iterator[Diagnostic]:
    """Report a glob of `recompute` that matches no layer; `layers` are the paths of all of them."""
    update = plan.spec.update
    glob = update.recomputed_scopes
    if glob is not None and not _matching(glob, layers):
        near, span = nearest_paths(glob, layers), update.span_of("recompute")
        yield weight_errors.recompute_matches_nothing(span, glob=glob, names=near)


def something_is_trained(plan: Plan, trained: Mapping[str, bool]) -> Iterator[Diagnostic]:
    """Report a model all of whose weights are frozen."""
    steps = [each.span for each in plan.model.layers if each.frozen]
    globs = plan.spec.update.freeze
    if not trained or any(trained.values()) or not (steps or globs):
        return
    span = plan.spec.update.span_of("freeze") if globs else steps[0]
    yield weight_errors.everything_frozen(list(trained), span)
