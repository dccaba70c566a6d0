"""What towers compute again: the layers that a spec names, or as little as brings a step below a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import evolve

from compiler.figures import gathered, size
from compiler.graph.compiled import CompiledGraph
from compiler.graph.stamp.lookups import usage_of
from compiler.graph.stamp.places import Layout
from compiler.graph.tower.recompute import SCOPE, Chain, Forward, Reader, recomputed, segments_of_scopes
from compiler.graph.tower.template import Template
from compiler.mapping.records import Recomputed
from compiler.placement.rules import Rulebook
from compiler.plan import Plan
from compiler.search.segments import Choice, cheapest, choice_of, least
from compiler.step.read.held import held_by_device
from compiler.step.read.memory import forecast_memory
from dsl.errors.plan import limit_not_reached

Segments: TypeAlias = Sequence[Sequence[str]]

TRIES = 6
"""How often a limit that forecasts exceed is tried again with less memory for what a clone keeps."""


def recompute(
    plan: Plan, templates: Mapping[int, Template], segments: Segments
) -> tuple[Plan, Mapping[int, Template]]:
    """Return towers that compute segments again, or what the spec names, and a plan that says so.

    Args:
        segments: The forward ops of each segment; of towers that lack some, those that they have.
    """
    glob, largest = plan.update.recomputed_scopes, templates[max(templates)]
    if glob is not None:
        segments = segments_of_scopes(largest, glob)
    if plan.update.schedule is not None:
        segments = _within_stages(plan, largest, segments)
    if not segments:
        return plan, templates
    made = {
        number: recomputed(each, [[name for name in names if name in each.roles] for names in segments])
        for number, each in templates.items()
    }
    return evolve(plan, recomputed=_told(segments, largest, made[max(made)])), made


def _within_stages(plan: Plan, template: Template, segments: Segments) -> Segments:
    """Return segments that are cut where a stage of a pipeline ends: a device recomputes only what it did."""
    layout = Layout(template, usage_of(template), Rulebook(plan.spec.place.rules, plan.topology), staged=True)
    stages = layout.stages(plan.towers[0]).of
    found = gathered(
        ((at, stages[name].number if name in stages else 0), name)
        for at, names in enumerate(segments)
        for name in names
    )
    return [*found.values()]


def _told(segments: Segments, before: Template, after: Template) -> Recomputed:
    """Return what is saved and what it costs."""
    kept, whole = (Reader(Forward(each)) for each in (after, before))
    left = kept.bytes_of(kept.taken)
    done = {name: kept.forward.operations(name) for name in after.fragment.node}
    again = sum(each for name, each in done.items() if name.startswith(f"{SCOPE}/"))
    saved = whole.bytes_of(whole.taken) - left
    return Recomputed(len(segments), left, saved, sum(done.values()) - again, again)


def below_limit(
    limit: int, templates: Mapping[int, Template], compiled_with: Callable[[Segments], CompiledGraph]
) -> CompiledGraph:
    """Return a graph whose step stays below a limit on each device with a tower, according to its forecast.

    What is computed again takes the least time that forecasts know of. If nothing suffices, the graph has the
    lowest peak that was found, and a warning. What does not lower the peak is not done.

    Args:
        limit: The limit in bytes.
        templates: The towers by the number of their examples, which compute nothing again.
    """
    best = compiled_with(())
    device, needed = _fullest(best)
    if needed <= limit:
        return best
    stay = best.plan.update.awaits_all_gradients
    chain = Chain.of(templates[max(templates)], gradients_stay=stay)
    towers = Counter(tower.device.ref for tower in best.plan.towers)[device] or 1
    room = choice_of(chain.stages, ()).peak - (needed - limit) // towers
    lowest = least(chain.stages)
    for _ in range(TRIES):
        choice = cheapest(chain.stages, room) or lowest
        tried = compiled_with(_segments(chain, choice))
        device, peak = _fullest(tried)
        if peak < needed:
            best, needed = tried, peak
        if peak <= limit or choice == lowest:
            break
        room = min(room, choice.peak) - max((peak - limit) // towers, room // 100, 1)
    if needed <= limit:
        return best
    span = best.plan.update.span_of("recompute")
    told = limit_not_reached(span, limit=size(limit), device=device, needed=size(needed))
    return evolve(best, warnings=(*best.warnings, told))


def _segments(chain: Chain, choice: Choice) -> Segments:
    return [[name for ops in chain.ops[first:end] for name in ops] for first, end in choice.segments]


def _fullest(compiled: CompiledGraph) -> tuple[str, int]:
    """Return the device with a tower that needs the most memory for a step, and how much."""
    step = compiled.sized_step
    held, memory = held_by_device(step), forecast_memory(step)
    devices = {each.ref for tower in compiled.plan.towers for each in tower.devices}
    needed = {ref: sum(held[ref].values()) + memory[ref].bytes for ref in sorted(devices)}
    device = max(needed, key=needed.__getitem__)
    return device, needed[device]
