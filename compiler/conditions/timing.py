"""The forecast of the time of a step, from the profile beside the spec, for who needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.conditions.expect import needs_time
from compiler.graph.inspect.timed_step import forecast_time
from compiler.mapping.step_time import MapTime
from compiler.time.profile import find_profile

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


def time_if_needed(compiled: CompiledGraph) -> MapTime | None:
    """Return the forecast if the spec has conditions on it, and if something is known to make it from.

    Raises:
        RunError: If the file beside the spec is no profile.
    """
    spec = compiled.plan.spec
    if not needs_time(spec):
        return None
    found = find_profile(spec.path, None)
    forecast = forecast_time(compiled, found.profile if found is not None else None)
    if forecast is None:
        return None
    return MapTime.of(forecast, found.path if found is not None else spec.devices.kind or "")
