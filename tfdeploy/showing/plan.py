"""What is shown of a plan: devices and towers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.figures import plural
from compiler.report.refs import label
from dsl.shown import Summary, Table

if TYPE_CHECKING:
    from compiler.plan import Plan


def summary(plan: Plan) -> Summary:
    """Return what is shown of a plan."""
    update = plan.spec.update
    devices = [each.ref for each in plan.topology.devices]
    facts = (
        ("model", f"{plan.spec.model.name}: {plural(len(plan.model.layers), 'layer')}"),
        ("devices", f"{label(devices)}{', emulated' if plan.emulate else ''}"),
        ("update", f"{update.mode}, {update.aggregate.name}, {update.reduce}"),
        ("batch", f"{plural(plan.global_batch, 'example')} in a step of all clones"),
    )
    rows = tuple(
        (
            str(each.number),
            ", ".join(device.ref for device in each.devices),
            str(each.batch),
            each.reason.text,
        )
        for each in plan.all_towers
    )
    towers = Table(("clone", "devices", "examples", "placed by"), rows, left=4)
    return Summary(f"plan of {plan.spec.path}", facts, (towers,))
