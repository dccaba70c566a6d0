"""No stray op: every op of a compiled graph has a device that the spec, or a default, gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


def verify_placement(compiled: CompiledGraph) -> None:
    """Raise SpecError for ops without a device of their own, or on another than the ledger says."""
    found: list[Diagnostic] = []
    for op in compiled.graph.get_operations():
        entry = compiled.ledger.entries.get(op.name)
        if entry is None or not op.device:
            found.append(errors.stray_op(op.name, op.device or None, "nothing placed it", None))
            continue
        wanted = compiled.plan.tensorflow_device(entry.device)
        if op.device != wanted:
            rule = entry.placed.why.rule
            reason = f"`{wanted}` was asked for"
            found.append(errors.stray_op(op.name, op.device, reason, rule.span if rule is not None else None))
    if found:
        raise SpecError(found)
