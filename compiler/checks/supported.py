"""What the language allows and this version cannot compile is refused where it is written."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import plan as errors


def parts_are_supported(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report every part of the spec that is not built yet."""
    del topology
    if spec.devices.jobs:
        yield errors.not_supported_yet("a cluster", spec.devices.jobs[0].span, "the devices of one machine")
