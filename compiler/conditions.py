"""What a spec expects of its compiled placement, and its limits of memory, with the forecasts for both.

For each condition of `expect` that is not met there is a diagnostic (TFD531 to TFD537), with the figure and
the largest of its parts. `memory(...)` needs a map with a forecast of memory, `step_time` and `busy(...)`
one of time, which comes from the profile beside the spec. `gpu_memory` is the memory of each GPU,
`cpu_memory` the memory of each machine. What a spec does not ask for is not forecast, because that takes
seconds for large graphs.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from attrs import evolve, frozen

from compiler.figures import duration, gathered, plural, size
from compiler.graph.build import compile_step
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.placement_map import map_placement
from compiler.kinds.kind_map import AnyMap
from compiler.kinds.kinds import KindTime
from compiler.mapping.records import MapDevice, MapTensor, MapTime, Sought
from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import homes_of
from compiler.plan import Plan, WorkerPlan
from compiler.report.devices import Pool, device_label, parse_ref, pools
from compiler.step.read.held import held_by_device
from compiler.step.read.memory import StepMemory, forecast_memory
from compiler.step.read.work import forecast_time
from compiler.time.forecast import StepForecast
from compiler.time.profile import find_profile
from dsl import ir
from dsl.diagnostics import Diagnostic, SpecError
from dsl.errors import plan as errors

MOST_NAMED = 5
_OF_TIME = ("step_time", "busy")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}


@frozen
class Figure:
    """What a condition is about."""

    value: float  # the figure as a number: a ratio, bytes, or a count
    text: str
    parts: tuple[str, ...]  # what it is made of, the largest part first


def needs_memory(spec: ir.Spec) -> bool:
    """Whether a condition is about the memory of devices, which must be forecast."""
    return any(each.function == "memory" for each in spec.expect.conditions)


def needs_time(spec: ir.Spec) -> bool:
    """Whether a condition is about the time of a step, which must be forecast."""
    return any(each.function in _OF_TIME for each in spec.expect.conditions)


def require_expectations(
    compiled: CompiledGraph, memory: Mapping[str, StepMemory], time: MapTime | None = None
) -> None:
    """Raise SpecError for the conditions of the spec that its compiled graph does not meet."""
    if not compiled.plan.spec.expect.conditions:
        return
    found = check_expectations(compiled.plan, map_placement(compiled, memory=memory, time=time), remedy_for)
    if found:
        raise SpecError(found)


Remedy: TypeAlias = Callable[[Plan, ir.Condition], str | None]
"""Returns a setting with which a condition that fails would hold."""


def check_expectations(plan: Plan, placement: AnyMap, remedy: Remedy | None = None) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each condition that is not met, or of time and without a forecast."""
    wanted = plan.spec.expect.conditions
    unknown = [each for each in wanted if placement.time is None and each.function in _OF_TIME]
    not_met = [
        errors.not_met(condition, figure.text, figure.parts, remedy and remedy(plan, condition))
        for condition in wanted
        if condition not in unknown
        for figure in _failing(condition, _MEASURES[condition.function](condition, plan, placement))
    ]
    return (*(errors.time_unknown(each.span, condition=each.text) for each in unknown), *not_met)


def _failing(condition: ir.Condition, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Yield the figure that is furthest from the condition, if any figure does not meet it."""
    holds = _COMPARE[condition.operator]
    failing = [each for each in figures if not holds(each.value, condition.value)]
    if failing:
        yield max(failing, key=lambda each: abs(each.value - condition.value))


# --- measures ---------------------------------------------------------------------------------------------


def _imbalance(condition: ir.Condition, plan: Plan, placement: AnyMap) -> list[Figure]:
    """Return how far the fullest of the devices with variables is above their mean."""
    del condition
    book = Rulebook(plan.spec.place.rules, plan.topology)
    names = [each.name for each in placement.variables_like]
    refs = {each.ref for each in homes_of(book, names, plan.towers)}
    devices = [each for each in placement.devices if each.ref in refs]
    loads = {each.ref: each.variable_bytes + each.slot_bytes for each in devices}
    mean = sum(loads.values()) / len(loads) if loads else 0
    if not mean:
        return [Figure(0.0, "0%", ())]
    fullest = max(loads, key=lambda ref: loads[ref])
    excess = loads[fullest] / mean - 1
    of_all = f"the mean of {plural(len(loads), 'device')} is {_size(int(mean))}"
    parts = [f"`{fullest}` holds {_size(loads[fullest])}; {of_all}", *largest_variables(fullest, placement)]
    return [Figure(excess, f"{excess:.1%}", tuple(parts))]


def largest_variables(ref: str, placement: AnyMap) -> list[str]:
    """Return a note with the largest variables on a device, slots included; no note if it has none."""
    held = {
        each.name: (each.bytes if ref in (each.device, *each.copies) else 0)
        + sum(slot.bytes for slot in each.slots if slot.device == ref)
        for each in placement.variables
    }
    largest = sorted((name for name in held if held[name]), key=lambda name: (-held[name], name))[:MOST_NAMED]
    listed = ", ".join(f"`{name}` ({_size(held[name])})" for name in largest)
    return [f"largest there, with slots: {listed}"] if largest else []


def _memory(condition: ir.Condition, plan: Plan, placement: AnyMap) -> list[Figure]:
    """Return the memory that each of the devices needs for a step."""
    refs = _refs(condition.arguments[0], plan)
    return [_device_memory(each) for each in placement.devices if each.ref in refs]


def _device_memory(device: MapDevice) -> Figure:
    parts = memory_parts(device)
    assert device.memory_bytes is not None
    return Figure(device.memory_bytes, f"{_size(device.memory_bytes)} on `{device.ref}`", tuple(parts))


def memory_parts(device: MapDevice) -> list[str]:
    """Return notes on the parts of the forecast for a device, with the largest tensors of its peak.

    Raises:
        ValueError: The map has no forecast.
    """
    if device.memory_bytes is None or device.step_bytes is None:
        raise ValueError("the map has no forecast of memory")
    held = device.variable_bytes + device.other_bytes
    of_step = f"tensors of a step {_size(device.step_bytes)}"
    parts = [f"on `{device.ref}`: variables {_size(held)}, slots {_size(device.slot_bytes)}, {of_step}"]
    return parts + _tensors("largest when a step needs most", device.largest)


def _traffic(condition: ir.Condition, plan: Plan, placement: AnyMap) -> list[Figure]:
    """Return what a step sends from the first devices to the second."""
    sources, targets = (_refs(each, plan) for each in condition.arguments)
    links = [
        each for each in placement.transfers if each.from_device in sources and each.to_device in targets
    ]
    total, unknown = sum(each.bytes for each in links), sum(each.bytes_unknown for each in links)
    parts = []
    if links:
        busiest = max(links, key=lambda each: each.bytes)
        parts.append(
            f"most from `{busiest.from_device}` to `{busiest.to_device}`: "
            f"{_size(busiest.bytes)} in {plural(busiest.tensors, 'tensor')}"
        )
        parts += _tensors("largest on that way", busiest.largest)
    if unknown:
        parts.append(f"{plural(unknown, 'tensor')} of unknown size not counted")
    return [Figure(total, f"{_size(total)} a step", tuple(parts))]


def _tensors(what: str, tensors: Sequence[MapTensor]) -> list[str]:
    listed = ", ".join(
        f"`{each.name.removesuffix(':0')}` ({_size(each.bytes)})" for each in tensors[:MOST_NAMED]
    )
    return [f"{what}: {listed}"] if tensors else []


def _ops(condition: ir.Condition, plan: Plan, placement: AnyMap) -> list[Figure]:
    """Return the number of ops on the devices whose names, in the graph or in their tower, match the glob."""
    refs, glob = _refs(condition.arguments[0], plan), condition.arguments[1]
    assert isinstance(glob, str)
    matching = list(placement.counted(Sought.of_glob(glob)))
    on = [(each, [ref for ref in each.devices if ref in refs]) for each in matching]
    found = [(each.first, devices[0], each.each * len(devices)) for each, devices in on if devices]
    if isinstance(plan, WorkerPlan):  # the map lists the ops of one worker; the others have the same
        twins = Counter(twin for ref, twin in plan.twins.items() if ref in refs)
        own = [(each.first, ref, each.each * twins[ref]) for each in matching for ref in each.devices]
        found += [each for each in own if each[2]]
    number = sum(each for _, _, each in found)
    parts = []
    if found:
        named = ", ".join(f"`{name}` on `{ref}`" for name, ref, _ in found[:MOST_NAMED])
        more = f" and {number - len(found[:MOST_NAMED]):,} more" if number > len(found[:MOST_NAMED]) else ""
        parts.append(f"these are {named}{more}")
    return [Figure(number, plural(number, "op"), tuple(parts))]


def _step_time(condition: ir.Condition, plan: Plan, placement: AnyMap) -> list[Figure]:
    del condition, plan
    time = placement.time
    assert time is not None  # or the condition has been refused
    return [Figure(time.seconds, duration(time.seconds), tuple(_path_parts(placement, time)))]


def _path_parts(placement: AnyMap, time: MapTime | KindTime) -> Iterator[str]:
    """Yield notes on what takes the time of a step."""
    if time.by_scope:
        longest = [f"`{each.name}` ({duration(each.seconds)})" for each in time.by_scope[:MOST_NAMED]]
        yield f"longest on the critical path: {', '.join(longest)}"
    link = next(placement.busiest_links(), None)
    if link is not None:
        yield f"busiest link: `{link.from_device}` to `{link.to_device}`, {link.busy:.0%} of the step"
    if time.estimate:
        yield f"this is an estimate for the hardware `{time.source}`, and not measured"


def _busy(condition: ir.Condition, plan: Plan, placement: AnyMap) -> list[Figure]:
    """Return the part of a step in which each of the devices is busy."""
    refs, time = _refs(condition.arguments[0], plan), placement.time
    assert time is not None  # or the condition has been refused
    parts = tuple(_path_parts(placement, time))
    step = duration(time.seconds)
    return [
        Figure(
            each.busy,
            f"{each.busy:.1%} on `{each.ref}`",
            (f"`{each.ref}` works for {duration(each.seconds)} of a step of {step}", *parts),
        )
        for each in placement.device_times
        if each.ref in refs
    ]


def _size(number: int) -> str:
    return size(number) if number else "0 B"


def _refs(argument: ir.DeviceSet | str, plan: Plan) -> set[str]:
    assert isinstance(argument, ir.DeviceSet)
    return {each.ref for each in plan.topology.resolve_set(argument)}


_MEASURES: dict[str, Callable[[ir.Condition, Plan, AnyMap], list[Figure]]] = {
    "imbalance": _imbalance,
    "memory": _memory,
    "traffic": _traffic,
    "ops": _ops,
    "step_time": _step_time,
    "busy": _busy,
}


# --- what would help --------------------------------------------------------------------------------------


MOST_CLONES = 32
"""With more clones no setting is looked for, because that takes longer than a message may."""


def remedy_for(plan: Plan, condition: ir.Condition) -> str | None:
    """Return the setting with which a condition of memory that fails would hold; None if none is known."""
    if condition.function != "memory" or condition.operator not in ("<", "<="):
        return None
    if plan.update.recompute is not None or len(plan.all_towers) > MOST_CLONES:
        return None
    limit = int(condition.value) - (condition.operator == "<")
    update = evolve(plan.update, recompute=ir.Call("memory", (limit,)))
    spec = evolve(plan.spec, update=update, expect=ir.Expect())
    tried = compile_step(evolve(plan, spec=spec), base=str(Path(spec.path).parent))
    step, (devices, *_) = tried.sized_step, condition.arguments
    held, memory = held_by_device(step), forecast_memory(step)
    assert isinstance(devices, ir.DeviceSet)
    refs = (each.ref for each in plan.topology.resolve_set(devices))
    if tried.plan.recomputed is None or any(
        sum(held[ref].values()) + memory[ref].bytes > limit for ref in refs
    ):
        return None
    return f"recompute = memory({condition.text.rpartition(condition.operator)[2].strip()})"


def has_limits(spec: ir.Spec) -> bool:
    """Whether the spec gives the memory of its devices."""
    return spec.devices.gpu_memory is not None or spec.devices.cpu_memory is not None


def forecast_if_needed(compiled: CompiledGraph) -> dict[str, StepMemory]:
    """Return the peak of a step on each device if the spec has limits or conditions for it, else nothing."""
    spec = compiled.plan.spec
    return forecast_memory(compiled.sized_step) if has_limits(spec) or needs_memory(spec) else {}


def warnings_of(compiled: CompiledGraph, memory: Mapping[str, StepMemory]) -> tuple[Diagnostic, ...]:
    """Return the warnings about a compiled spec, also about devices with too little memory by a forecast."""
    spec = compiled.plan.spec
    if not has_limits(spec):
        return compiled.warnings
    return (*compiled.warnings, *too_full(spec, map_placement(compiled, memory=memory)))


def too_full(spec: ir.Spec, placement: AnyMap) -> tuple[Diagnostic, ...]:
    """Return a warning for each GPU or machine whose forecast exceeds its memory; equal ones share one."""
    alike = gathered(
        ((f"{parse_ref(pool.devices[0].ref).kind}_memory", pool.needed), pool)
        for pool in pools(placement)
        if pool.excess > 0
    )
    return tuple(_warning(spec, placement, attribute, same) for (attribute, _), same in alike.items())


def _warning(spec: ir.Spec, placement: AnyMap, attribute: str, alike: list[Pool]) -> Diagnostic:
    """Return one warning for pools that need the same memory; its notes describe the first of them."""
    first, names = alike[0], [device.ref for pool in alike for device in pool.devices]
    several = "" if len(alike) == 1 else "each of " if attribute == "gpu_memory" else "each machine of "
    notes = []
    for device in first.devices:
        notes += [*memory_parts(device), *largest_variables(device.ref, placement)]
    return errors.too_full(
        spec.devices.span_of(attribute),
        place=f"{several}`{device_label(names)}`",
        needed=size(first.needed),
        excess=size(first.excess),
        attribute=attribute,
        limit=size(first.limit),
        notes=notes,
    )


# --- the time of a step -----------------------------------------------------------------------------------


def time_of(compiled: CompiledGraph, profile: str | None = None) -> StepForecast | None:
    """Return the forecast of a step, or None if nothing is known to make it from.

    Args:
        profile: The file of a profile; by default the one beside the spec, if there is one.
    """
    return forecast_time(compiled.sized_step, find_profile(compiled.plan.spec.path, profile))


def map_time(compiled: CompiledGraph) -> MapTime | None:
    """Return the forecast of a step as the placement map has it; the errors are those of `time_of`."""
    found = time_of(compiled)
    return found.for_map() if found is not None else None


def time_if_needed(compiled: CompiledGraph) -> MapTime | None:
    """Return the forecast if the spec has conditions on it; the errors are those of `time_of`."""
    return map_time(compiled) if needs_time(compiled.plan.spec) else None
