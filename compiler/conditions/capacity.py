"""The memory that a step needs, held against what the spec says there is: `warnings_of(compiled)`.

`gpu_memory` is that of each GPU, `cpu_memory` that of each machine. Where neither is given, nothing is
forecast: that takes seconds for large graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.conditions.expect import largest_variables, memory_parts
from compiler.figures import size
from compiler.report import refs
from compiler.report.text.fullness import Pool, pools
from dsl.errors import plan as errors

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.mapping.records import PlacementMap
    from dsl import ir
    from dsl.diagnostics import Diagnostic


def warnings_of(compiled: CompiledGraph) -> tuple[Diagnostic, ...]:
    """Return what is strange about a compiled spec, memory that will not do included."""
    spec = compiled.plan.spec
    if spec.devices.gpu_memory is None and spec.devices.cpu_memory is None:
        return compiled.warnings
    compiled.forecast_memory()
    return (*compiled.warnings, *too_full(spec, compiled.placement))


def too_full(spec: ir.Spec, placement: PlacementMap) -> tuple[Diagnostic, ...]:
    """Return a warning for each GPU or machine whose forecast is above its memory; alike ones share one."""
    alike: dict[tuple[str, int], list[Pool]] = {}
    for pool in pools(placement):
        if pool.excess > 0:
            attribute = f"{refs.parse(pool.devices[0].ref).kind}_memory"
            alike.setdefault((attribute, pool.needed), []).append(pool)
    return tuple(_warning(spec, placement, attribute, same) for (attribute, _), same in alike.items())


def _warning(spec: ir.Spec, placement: PlacementMap, attribute: str, alike: list[Pool]) -> Diagnostic:
    """Return the warning for places that need equally much; what is there is told of the first."""
    first, names = alike[0], [device.ref for pool in alike for device in pool.devices]
    several = "" if len(alike) == 1 else "each of " if attribute == "gpu_memory" else "each machine of "
    notes = []
    for device in first.devices:
        notes += [*memory_parts(device), *largest_variables(device.ref, placement)]
    return errors.too_full(
        f"{several}`{refs.label(names)}`",
        size(first.needed),
        size(first.excess),
        attribute,
        size(first.limit),
        notes,
        spec.devices.span_of(attribute),
    )
