"""What the ops that `why` is asked about mean for the time of a step."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.figures import duration, plural, share
from compiler.mapping.explanation import Explanation
from compiler.time.forecast import PathPart, StepForecast


def why_time(found: Sequence[Explanation], forecast: StepForecast) -> str:
    """Return a line that says whether the things are on the critical path, and for how long.

    Args:
        found: The things. A variable stands for the ops that have its name as scope.
        forecast: The forecast of a step.
    """
    parts = [each for each in forecast.path if any(_is_of(each, thing) for thing in found)]
    ran = [each for each in parts if each.what == "op"]
    of_step = f"of a step of {duration(forecast.seconds)}{' (an estimate)' if forecast.estimate else ''}"
    if not forecast.path:
        return f"clones update by themselves: there is an update every {duration(forecast.seconds)}\n"
    if not ran:
        return f"not on the critical path {of_step}\n"
    seconds = sum(each.seconds for each in parts)
    said = f"{duration(seconds)} {of_step}, {share(seconds, forecast.seconds)}"
    if len(found) == 1:
        return f"on the critical path: {said}\n"
    return f"{plural(len(ran), 'op')} of these on the critical path: {said}\n"


def _is_of(part: PathPart, thing: Explanation) -> bool:
    return part.name == thing.name or (thing.kind == "variable" and part.name.startswith(f"{thing.name}/"))
