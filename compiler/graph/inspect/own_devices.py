"""Check that a worker's graph is on the worker and on tasks that keep variables, and not on other workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.topology import Host
from dsl.diagnostics import SpecError
from dsl.errors import plan as errors
from dsl.ir.place import PARAMETER_SERVER

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


def require_own_devices(compiled: CompiledGraph) -> None:
    """Raise SpecError if a worker's graph has ops on another worker that keeps no variables."""
    plan = compiled.plan
    if not isinstance(plan, WorkerPlan):
        return
    worker = plan.worker
    allowed = {worker.host, *homes_of_variables(compiled)}
    abroad = compiled.exchange.abroad if compiled.exchange is not None else ()
    for name, entry in compiled.ledger.entries.items():
        device = entry.device
        if device.job != PARAMETER_SERVER and device.host not in allowed and name not in abroad:
            rule = entry.placed.reason.rule
            span = rule.span if rule is not None else plan.spec.place.span
            ref = f"{worker.host[0]}[{worker.host[1]}]"
            raise SpecError([errors.other_workers_device(span, worker=ref, device=device.ref, op=name)])


def homes_of_variables(compiled: CompiledGraph) -> set[Host]:
    """Return the tasks that keep what workers share between steps."""
    return {each.device.host for each in shared_places(compiled)}


def shared_places(compiled: CompiledGraph) -> Iterator[Placed]:
    """Yield the places of what workers share between steps."""
    exchange = compiled.exchange
    if exchange is not None and exchange.meeting is not None:
        yield exchange.meeting.placed
        return
    yield compiled.ledger.entries[str(compiled.global_step.name).removesuffix(":0")].placed
    for variable in compiled.variables.values():
        for copy in range(len(variable.copies)):
            yield variable.beside(copy)
            yield variable.slot_place(copy)
        if variable.placement.updates is not None:
            yield variable.placement.updates
