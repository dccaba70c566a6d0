"""Building the graph of a spec for a command: what takes a while is told meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdeploy.cli.faults import show
from tfdeploy.progress import busy

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from dsl import ir
    from tfdeploy.cli.common import Common


def start(common: Common) -> None:
    """Start TensorFlow, which takes seconds."""
    from tfdeploy.runtime.quiet import start_tensorflow

    with busy("starting TensorFlow", plain=False):
        start_tensorflow(verbose=common.verbose)


def build(spec: ir.Spec, common: Common, *, emulate: bool = False, forecast: bool = False) -> CompiledGraph:
    """Return the graph of `spec`, with the memory of a step if that is to be `forecast`.

    What is strange about the spec is shown; what it expects of the placement is not asked. Raises SpecError.
    """
    from tfdeploy.runtime.plans import graph_of, plan_of

    plan, name = plan_of(spec, emulate=emulate, verbose=common.verbose), spec.model.name
    start(common)
    with busy(f"building the graph of {name}"):
        compiled = graph_of(plan, verbose=common.verbose)
        from compiler.conditions.capacity import warnings_of

        strange = warnings_of(compiled)
    if strange:
        show(strange, common)
    if forecast:
        with busy(f"forecasting the memory that a step of {name} takes"):
            compiled.forecast_memory()
    return compiled
