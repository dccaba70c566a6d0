"""The times of a real step beneath the forecast ones, as text and as JSON."""

from __future__ import annotations

import json

from attrs import asdict

from compiler.figures import duration, plural
from compiler.report.table import headed, shorten, signed
from compiler.report.view import View
from compiler.time.measured_trace import Beneath

SHOWN = 10
"""The most ops that are named."""

LONGEST = 48
"""The most characters of the name of an op."""


def beneath_text(beneath: Beneath, view: View) -> list[str]:
    """Return lines with the sums, and the ops whose times differ most.

    Args:
        beneath: The times of ops in a real step and in the forecast, in seconds.
        view: The settings of the view, which colour the head of the table.
    """
    together = f"{duration(beneath.measured)} together, forecast {duration(beneath.forecast)}"
    lines = [f"measured in {plural(beneath.steps, 'step')}: its ops took {together}"]
    if beneath.unknown:
        lines.append(f"and {duration(beneath.unknown)} in ops that the forecast leaves out")
    rows = [("largest differences", "device", "forecast", "measured", "difference")]
    rows += [
        (
            shorten(each.name, LONGEST),
            each.device,
            duration(each.forecast),
            duration(each.measured),
            signed(each.difference, duration),
        )
        for each in beneath.ops[:SHOWN]
        if each.difference
    ]
    return lines + headed(rows, view.ink, left=2)


def beneath_json(beneath: Beneath) -> str:
    """Return one JSON object with every op, those with the largest difference first."""
    whole = {
        "format_version": "1.0",
        "steps": beneath.steps,
        "forecast": beneath.forecast,
        "measured": beneath.measured,
        "left_out": beneath.unknown,
        "ops": [asdict(each) for each in beneath.ops],
    }
    return json.dumps(whole) + "\n"
