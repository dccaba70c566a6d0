"""TFD53x: conditions of `expect` that the compiled placement does not meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.making import error
from dsl.errors.words import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.ir import Condition

_CODES = {"imbalance": "TFD531", "memory": "TFD532", "traffic": "TFD533", "ops": "TFD534"}
_ADVICE = {
    "imbalance": "spread the variables with `balanced(...)`",
    "memory": "use smaller batches, or more devices",
    "traffic": "place what is sent beside what uses it",
    "ops": "place the ops elsewhere",
}


def not_met(condition: Condition, figure: str, contributions: Sequence[str]) -> Diagnostic:
    """Report a condition that does not hold; `figure` is what was found, `contributions` what makes it up."""
    return error(
        _CODES[condition.function],
        f"{quoted(condition.text)} does not hold",
        condition.span,
        text=f"it is {figure}",
        notes=tuple(contributions),
        help=_ADVICE[condition.function] if condition.operator in {"<", "<="} else None,
    )
