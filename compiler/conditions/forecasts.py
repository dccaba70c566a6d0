"""Forecasts of memory and time as far as a spec asks for them, and warnings of devices that are too small.

`gpu_memory` is the memory of each GPU, `cpu_memory` the memory of each machine. If neither is given, nothing
is forecast for them, because a forecast takes seconds for large graphs. That of time comes from the profile
beside the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from compiler.conditions.expect import largest_variables, memory_parts, needs_memory, needs_time
from compiler.figures import gathered, size
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.sized_step import sized_step
from compiler.mapping.records import MapTime
from compiler.report.devices import Pool, device_label, parse_ref, pools
from compiler.step.read.memory import StepMemory, forecast_memory
from compiler.step.read.work import forecast_time
from compiler.time.profile import find_profile
from dsl.errors import plan as errors

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.kinds.records.kind_map import AnyMap
    from dsl import ir
    from dsl.diagnostics import Diagnostic


def has_limits(spec: ir.Spec) -> bool:
    """Whether the spec gives the memory of its devices."""
    return spec.devices.gpu_memory is not None or spec.devices.cpu_memory is not None


def forecast_if_needed(compiled: CompiledGraph) -> dict[str, StepMemory]:
    """Return the peak of a step on each device if the spec has limits or conditions for it, else nothing."""
    spec = compiled.plan.spec
    return forecast_memory(sized_step(compiled)) if has_limits(spec) or needs_memory(spec) else {}


def warnings_of(compiled: CompiledGraph, memory: Mapping[str, StepMemory]) -> tuple[Diagnostic, ...]:
    """Return the warnings about a compiled spec, also about devices with too little memory by a forecast."""
    spec = compiled.plan.spec
    if not has_limits(spec):
        return compiled.warnings
    return (*compiled.warnings, *too_full(spec, map_placement(compiled, memory=memory)))


def too_full(spec: ir.Spec, placement: AnyMap) -> tuple[Diagnostic, ...]:
    """Return a warning for each GPU or machine whose forecast exceeds its memory; equal ones share one."""
    alike = gathered(
        ((f"{parse_ref(pool.devices[0].ref).kind}_memory", pool.needed), pool)
        for pool in pools(placement)
        if pool.excess > 0
    )
    return tuple(_warning(spec, placement, attribute, same) for (attribute, _), same in alike.items())


def _warning(spec: ir.Spec, placement: AnyMap, attribute: str, alike: list[Pool]) -> Diagnostic:
    """Return one warning for pools that need the same memory; its notes describe the first of them."""
    first, names = alike[0], [device.ref for pool in alike for device in pool.devices]
    several = "" if len(alike) == 1 else "each of " if attribute == "gpu_memory" else "each machine of "
    notes = []
    for device in first.devices:
        notes += [*memory_parts(device), *largest_variables(device.ref, placement)]
    return errors.too_full(
        spec.devices.span_of(attribute),
        place=f"{several}`{device_label(names)}`",
        needed=size(first.needed),
        excess=size(first.excess),
        attribute=attribute,
        limit=size(first.limit),
        notes=notes,
    )


# --- the time of a step -----------------------------------------------------------------------------------


if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.time.forecast import StepForecast


def time_of(compiled: CompiledGraph, profile: str | None = None) -> tuple[StepForecast, str] | None:
    """Return the forecast of a step and what it was made from, or None if nothing is known to make it from.

    Args:
        compiled: The graph.
        profile: The file of a profile; by default the one beside the spec, if there is one.

    Raises:
        RunError: If the file is no profile.
    """
    spec = compiled.plan.spec
    found = find_profile(spec.path, profile)
    forecast = forecast_time(sized_step(compiled), found.profile if found is not None else None)
    if forecast is None:
        return None
    return forecast, found.path if found is not None else spec.devices.kind or ""


def map_time(compiled: CompiledGraph) -> MapTime | None:
    """Return the forecast of a step as the placement map has it; the errors are those of `time_of`."""
    found = time_of(compiled)
    return found[0].for_map(found[1]) if found is not None else None


def time_if_needed(compiled: CompiledGraph) -> MapTime | None:
    """Return the forecast if the spec has conditions on it; the errors are those of `time_of`."""
    return map_time(compiled) if needs_time(compiled.plan.spec) else None
