"""The memory that pods ask for, so that a node has it when they come there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.figures import gathered
from tfdeploy.kubernetes.deployment import CLIENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.kinds.records.kind_map import AnyMap
    from dsl import ir

OF_TENSORFLOW = 1 << 30
"""The bytes of a process with TensorFlow beside those of a step: its libraries, the graph, and buffers."""
MARGIN = 1.25
"""How many times the forecast of a step is asked for, because a step may also need more."""


def requests_of(spec: ir.Spec, placement: AnyMap) -> Mapping[str, int]:
    """Return the bytes that a task of each job, and the client, should ask for.

    That is what the CPU devices of the job's fullest task need by the forecast of a step, with a margin, and
    what TensorFlow has by itself. Examples that a task keeps, as with `cache()`, are not in it.

    Args:
        spec: The spec.
        placement: The placement map of the spec, with the forecast of the memory of a step.
    """
    from compiler.report.devices import parse_ref

    tasks = gathered((parse_ref(each.ref).host, each.memory_bytes or 0) for each in placement.devices)
    found = {job.name: OF_TENSORFLOW for job in spec.devices.jobs} | {CLIENT: OF_TENSORFLOW}
    for (job, _, kind), needed in tasks.items():
        if kind == "cpu":
            found[job] = max(found[job], OF_TENSORFLOW + round(MARGIN * sum(needed)))
    return found
