"""What a spec says and nothing uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import plan as errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.topology import Topology
    from dsl import ir
    from dsl.diagnostics import Diagnostic


def link_is_used(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Warn of `link` if no tensor is ever copied: the devices are all CPU devices of one process."""
    if spec.devices.link is not None and not spec.devices.jobs and not topology.select("gpu"):
        yield errors.link_without_effect(spec.devices.span_of("link"))
