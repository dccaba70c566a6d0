"""What is shown of a placement map: devices with their bytes, and the largest variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.figures import count, duration, size, size_of_known
from compiler.report.text.step_time import origin
from compiler.report.text.terminal import headline
from compiler.report.totals import Totals, device_totals
from dsl.shown import Summary, Table

if TYPE_CHECKING:
    from compiler.mapping.records import MapVariable, PlacementMap


def summary(placement: PlacementMap) -> Summary:
    """Return what is shown of a placement map."""
    first, *others = headline(placement)
    totals = device_totals(placement)
    forecast = any(each.memory is not None for each in totals.values())
    devices = Table(
        device_head(forecast=forecast),
        tuple(device_row(ref, each, forecast=forecast) for ref, each in totals.items()),
    )
    largest = sorted(placement.variables, key=lambda each: -each.bytes)
    variables = Table(
        ("variable", "shape", "device", "placed by", "bytes"),
        tuple(_variable_row(each) for each in largest),
        left=4,
    )
    facts = tuple(("", line) for line in others)
    time = placement.time
    if time is not None:
        facts = (*facts, ("", f"a step takes {duration(time.seconds)}, {origin(time)}"))
    return Summary(f"placement of {first}", facts, (devices, variables))


def device_head(*, forecast: bool) -> tuple[str, ...]:
    """Return the names of the columns; `forecast` is whether the memory of a step is known."""
    return ("device", "ops", "variables", "slots", *(["memory"] if forecast else []), "in/step", "out/step")


def device_row(name: str, totals: Totals, *, forecast: bool) -> tuple[str, ...]:
    """Return the cells for a device."""
    memory = (size(totals.memory) if totals.memory is not None else "?",) if forecast else ()
    return (
        name,
        count(totals.ops),
        size(totals.variables),
        size(totals.slots),
        *memory,
        size_of_known(totals.bytes_in, totals.in_unknown),
        size_of_known(totals.bytes_out, totals.out_unknown),
    )


def _variable_row(variable: MapVariable) -> tuple[str, ...]:
    rule = variable.rule
    where = f" (line {rule.line})" if rule.line is not None else ""
    devices = ", ".join(variable.copies or (variable.device,))
    return variable.name, str(list(variable.shape)), devices, f"{rule.text}{where}", size(variable.bytes)
