"""TFD53x: conditions of `expect` that the compiled placement or its forecasts do not meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error
from dsl.errors.words import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.ir import Condition

_CODES = {
    "imbalance": "TFD531",
    "memory": "TFD532",
    "traffic": "TFD533",
    "ops": "TFD534",
    "step_time": "TFD536",
    "busy": "TFD537",
}
_ADVICE = {
    "imbalance": "spread the variables with `balanced(...)`",
    "memory": "use smaller batches, or more devices",
    "traffic": "place what is sent beside what uses it",
    "ops": "place the ops elsewhere",
    "step_time": "move work from the critical path to devices that wait, or make it smaller",
}


def not_met(condition: Condition, figure: str, contributions: Sequence[str]) -> Diagnostic:
    """Report a condition that does not hold.

    Args:
        condition: The condition.
        figure: What was found, with its unit.
        contributions: What makes it up, a sentence each.
    """
    return error(
        _CODES[condition.function],
        f"{quoted(condition.text)} does not hold",
        condition.span,
        text=f"it is {figure}",
        notes=tuple(contributions),
        help=_ADVICE.get(condition.function) if condition.operator in {"<", "<="} else None,
    )


def time_unknown(condition: Condition) -> Diagnostic:
    """Report a condition on time without a forecast."""
    return error(
        "TFD538",
        f"{quoted(condition.text)} cannot be compared with anything",
        condition.span,
        text="nothing was measured here, and no hardware is named",
        help="run `tfdeploy calibrate` on this spec, or give the `kind` of the devices in `devices`",
    )
