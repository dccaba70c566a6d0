"""Check that what is done with a weight can be done with its pieces, each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import unwrap
from typing import Any

import keras

from compiler.graph.optimizers.groups import UpdateRules
from compiler.graph.tower.template import WeightInfo
from compiler.placement.rules import Rulebook
from compiler.plan import Plan
from compiler.shards import Shard
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors
from dsl.source import Span

_SUMS = (keras.regularizers.L1, keras.regularizers.L2, keras.regularizers.L1L2)
"""Regularizers that are sums over elements, so that those of the pieces add up to that of the whole."""

_NORMS = (keras.constraints.MaxNorm, keras.constraints.MinMaxNorm, keras.constraints.UnitNorm)
"""Constraints on norms along axes, which a piece has if it is not cut along one of them."""


def require_divisible(
    plan: Plan, rulebook: Rulebook, weights: Mapping[str, WeightInfo], rules: UpdateRules | None
) -> None:
    """Raise SpecError for weights in pieces that something can only treat as a whole.

    Args:
        weights: The weights, with pieces instead of those that are in pieces.
        rules: The rules of the update, by the names of whole weights; None if nothing is trained.

    Raises:
        SpecError: An optimizer, a constraint or a regularizer needs the whole weight.
    """
    first = [each for each in weights.values() if each.shard is not None and each.shard.number == 0]
    found = [fault for each in first for fault in _faults(plan, rulebook, each, rules)]
    if found:
        raise SpecError(found)


def require_divisible_parts(
    plan: Plan, rulebook: Rulebook, parts: Mapping[str, WeightInfo], rules: UpdateRules
) -> None:
    """Raise SpecError for weights of which clones update parts, if the optimizer needs the whole weight."""
    found: list[Diagnostic] = []
    for name in dict.fromkeys(each.weight for each in parts.values()):
        reason = rulebook.decide("slots", name)
        span = reason.span if reason is not None else None
        whole = _needing_whole(plan, name, rules)
        if whole is not None:
            optimizer, at = whole
            found.append(errors.update_needs_whole(at, name=name, what=optimizer, rule=span))
    if found:
        raise SpecError(found)


def _faults(
    plan: Plan, rulebook: Rulebook, info: WeightInfo, rules: UpdateRules | None
) -> Iterator[Diagnostic]:
    shard = info.shard
    assert shard is not None
    reason = rulebook.decide("variables", shard.of)
    span = reason.span if reason is not None else None
    whole = _needing_whole(plan, shard.of, rules)
    if whole is not None:
        yield errors.needs_whole(
            whole[1], name=shard.of, what=f"the optimizer, {whole[0]},", reason=errors.JOINED, rule=span
        )
    constraint, regularizer = unwrap(info.constraint), unwrap(info.regularizer)
    if info.trainable and constraint is not None and not _keeps_pieces(constraint, shard):
        name = f"the constraint, `{_name_of(constraint)}`,"
        yield errors.needs_whole(span, name=shard.of, what=name, reason="the variable is cut by this")
    if info.trainable and regularizer is not None and not isinstance(regularizer, _SUMS):
        name = f"the regularizer, `{_name_of(regularizer)}`,"
        yield errors.needs_whole(span, name=shard.of, what=name, reason="the variable is cut by this")


def _needing_whole(plan: Plan, name: str, rules: UpdateRules | None) -> tuple[str, Span | None] | None:
    """Return the optimizer of a weight in words, and its place, if its update needs the whole weight."""
    rule = rules.weights.get(name) if rules is not None else None
    if rule is None or not rule.needs_whole:
        return None
    call = plan.update.optimizers[rule.group].optimizer
    return "one that Python makes" if call.name == "python" else f"`{call.name}`", call.span


def _keeps_pieces(constraint: Any, shard: Shard) -> bool:
    """Whether a constraint on the pieces is that on the whole."""
    if isinstance(constraint, keras.constraints.NonNeg):
        return True
    if not isinstance(constraint, _NORMS):
        return False
    axes = constraint.axis if isinstance(constraint.axis, list | tuple) else [constraint.axis]
    return shard.axis not in {each % len(shard.whole) for each in axes}


def _name_of(thing: Any) -> str:
    return str(getattr(thing, "__name__", type(thing).__name__))
