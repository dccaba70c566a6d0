"""What a spec says and nothing uses yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.planning import plan as errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.topology import Topology
    from dsl import ir
    from dsl.diagnostics import Diagnostic


def link_is_used(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Warn of `link`, which is for a forecast of time that is not made yet."""
    del topology
    if spec.devices.link is not None:
        yield errors.link_without_effect(spec.devices.span_of("link"))
