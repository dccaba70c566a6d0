"""The forecast of the time of a step, from the profile beside the spec, for who needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.conditions.expect import needs_time
from compiler.graph.sized_step import sized_step
from compiler.mapping.records import MapTime
from compiler.step.read.work import forecast_time
from compiler.time.profile import find_profile

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
