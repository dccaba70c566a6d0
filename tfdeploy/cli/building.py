"""Builds the graph of a spec for a command, with a message on the terminal while that takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from compiler.kinds.layout import NO_EXTRAS
from compiler.process import collector_paused
from tfdeploy.cli.faults import show
from tfdeploy.progress import busy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.many_clones import ManyClones
    from compiler.kinds.kind_map import AnyMap
    from compiler.kinds.layout import Extras
    from compiler.kinds.step_kinds import StepKinds
    from compiler.mapping.records import MapTime, PlacementMap
    from compiler.plan import Plan
    from compiler.step.read.memory import StepMemory
    from compiler.time.forecast import StepForecast
    from compiler.time.work import StepWork
    from dsl import ir
    from tfdeploy.cli.common import Common
    from tfdeploy.runtime.plans import SharedTowers


@frozen
class BuiltGraph:
    """What a spec was compiled to."""

    compiled: CompiledGraph = field(repr=False)  # its step, of which no graph has been made
    # The memory of a step at its peak, by the name of the device in specs; empty if it was not forecast.
    memory: Mapping[str, StepMemory] = field(repr=False)
    time: StepForecast | None = field(default=None, repr=False)

    def placement(self, assigned: Mapping[str, str] | None = None) -> PlacementMap:
        """Return the placement map; `assigned` gives the device that each op ran on, if one has."""
        from compiler.graph.inspect.placement_map import map_placement

        return map_placement(self.compiled, assigned, self.memory, self.map_time())

    def map_time(self) -> MapTime | None:
        """Return the forecast of the time of a step as the placement map has it."""
        return self.time.for_map() if self.time is not None else None


@frozen
class ShownMap:
    """The placement map of a spec."""

    plan: Plan | None = field(repr=False)  # the plan of the spec, or None if the map is from a file
    placement: AnyMap = field(repr=False)
    # The graph, or None if there was no need to build it.
    compiled: CompiledGraph | None = field(default=None, repr=False)
    time: StepForecast | None = field(default=None, repr=False)
    # The ops of a step and the tensors between them, if they are asked for and there is no graph.
    step: StepKinds | None = field(default=None, repr=False)
    # The ops of a step and what each costs, if they are asked for and there is no graph.
    work: StepWork | None = field(default=None, repr=False)


TAKES_LONG = 32
"""With more clones than this, it is said why the graph of all is built."""


def said_of_graph(plan: Plan, because: str | None) -> str:
    """Return what is said while a graph is built."""
    from compiler.plan import WorkerPlan

    name, clones = plan.spec.model.name, len(plan.all_towers)
    if because is None or clones <= TAKES_LONG:
        return f"building the graph of {name}"
    what = "the chief's graph for" if isinstance(plan, WorkerPlan) else "the graph of"
    return f"building {what} all {clones:,} clones of {name}, because {because}"


@frozen
class Builder:
    """Builds maps and graphs for a command."""

    common: Common
    emulate: bool = False  # whether every declared device is a logical CPU of this process
    # The file of a profile for forecasts of time. By default it is the one beside the spec, if there is one.
    profile: str | None = None
    # Traced towers that several graphs of a command share, if they are not run.
    towers: SharedTowers | None = None

    def placed(self, spec: ir.Spec, extras: Extras = NO_EXTRAS) -> ShownMap:
        """Return the placement map of a spec with all forecasts, and show the warnings about it.

        The graph of many clones that are alike is not built for it.
        """
        found = self.many(spec, extras)
        if isinstance(found, str):
            with collector_paused():
                built = self.build(spec, forecast=True, because=found)
                return ShownMap(built.compiled.plan, built.placement(), built.compiled, built.time)
        return ShownMap(found.plan, found.placement, time=found.time, step=found.step, work=found.work)

    def many(self, spec: ir.Spec, extras: Extras = NO_EXTRAS) -> ManyClones | str:
        """Return the map of many clones that are alike and show warnings, or why it needs their graph."""
        from tfdeploy.runtime.many_clones import map_by_kinds

        found = map_by_kinds(
            spec,
            emulate=self.emulate,
            verbose=self.common.verbose,
            profile=self.profile,
            extras=extras,
            towers=self.towers,
        )
        if not isinstance(found, str) and found.warnings:
            show(found.warnings, self.common)
        return found

    def build(
        self, spec: ir.Spec, *, forecast: bool = False, timed: bool = False, because: str | None = None
    ) -> BuiltGraph:
        """Compile a spec to its step and show the warnings about it. The spec's `expect` is not checked.

        Args:
            forecast: Whether the memory of a step is forecast. It always is if the spec limits the memory of
                its devices.
            timed: Whether the time of a step is forecast, if something is known to forecast it from. It
                always is with `forecast`.
            because: Why a graph is needed; it is said if there are so many clones that this takes long.
        """
        from compiler.time.profile import find_profile
        from tfdeploy.runtime.adapted import adapted
        from tfdeploy.runtime.plans import plan_of, step_of_plan
        from tfdeploy.runtime.start_tensorflow import start_telling

        timed = timed or forecast
        machine = find_profile(spec.path, self.profile) if timed else None  # before anything takes long
        plan, name = plan_of(spec, emulate=self.emulate, verbose=self.common.verbose), spec.model.name
        start_telling(verbose=self.common.verbose)
        with busy(said_of_graph(plan, because)):
            compiled = step_of_plan(adapted(plan), self.towers)
            from compiler.conditions import has_limits, warnings_of
            from compiler.step.read.memory import forecast_memory

            memory = forecast_memory(compiled.sized_step) if forecast or has_limits(spec) else {}
        strange = warnings_of(compiled, memory)
        if strange:
            show(strange, self.common)
        if not timed or (machine is None and spec.devices.kind is None):
            return BuiltGraph(compiled, memory)  # nothing says what ops cost
        with busy(f"forecasting the time of a step of {name}"):
            from compiler.step.read.work import forecast_time

            return BuiltGraph(compiled, memory, forecast_time(compiled.sized_step, machine))
