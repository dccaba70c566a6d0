"""What is shown of a placement map: devices with their bytes, and the largest variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.figures import size
from compiler.kinds.expanding.expand import time_of, variables_like
from compiler.report.text.device_table import device_head, device_row
from compiler.report.text.step_time import time_line
from compiler.report.text.terminal import headline
from compiler.report.totals import device_totals
from dsl.shown import Summary, Table

if TYPE_CHECKING:
    from compiler.kinds.records.kind_map import AnyMap
    from compiler.mapping.records import MapVariable


def summary(placement: AnyMap) -> Summary:
    """Return what is shown of a placement map."""
    first, *others = headline(placement)
    totals = device_totals(placement)
    forecast = any(each.memory is not None for each in totals.values())
    devices = Table(
        device_head(forecast=forecast),
        tuple(device_row(ref, each, forecast=forecast) for ref, each in totals.items()),
    )
    largest = sorted(variables_like(placement), key=lambda each: -each.bytes)
    variables = Table(
        ("variable", "shape", "device", "placed by", "bytes"),
        tuple(_variable_row(each) for each in largest),
        left=4,
    )
    facts = tuple(("", line) for line in others)
    time = time_of(placement)
    if time is not None:
        facts = (*facts, ("", time_line(placement.mode.update, time)))
    return Summary(f"placement of {first}", facts, (devices, variables))


def _variable_row(variable: MapVariable) -> tuple[str, ...]:
    rule = variable.rule
    where = f" (line {rule.line})" if rule.line is not None else ""
    devices = ", ".join(variable.copies or (variable.device,))
    return variable.name, str(list(variable.shape)), devices, f"{rule.text}{where}", size(variable.bytes)
