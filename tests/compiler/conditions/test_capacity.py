"""Forecasts of memory and time: held against what a spec gives, what would help, and when they are made."""

from functools import cache
from pathlib import Path

import pytest
from attrs import evolve

from compiler import conditions
from compiler.conditions import has_limits, require_expectations, too_full
from compiler.graph.build import compile_step
from compiler.graph.compiled import CompiledGraph
from compiler.pipeline import make_plan
from compiler.report.devices import pools
from compiler.report.terminal import fullness
from compiler.report.view import View
from compiler.step.read.memory import forecast_memory
from compiler.time.profile import MeasuredMachine, Profile
from dsl import ir
from dsl.files.typed_json import to_json
from tests.compiler.graph.tower.test_recompute import chain
from tests.placement_maps import make_map
from tests.support import CLASSIFIER, classifier, refusal_of, spec_of

KIB = 1024


def _spec(**memory: int) -> ir.Spec:
    spec = classifier()
    return evolve(spec, devices=evolve(spec.devices, **memory))


def test_gpus_that_are_alike_share_a_warning() -> None:
    """Each GPU has memory of its own; those that need equally much are named together, others apart."""
    placement = make_map(3)
    devices = [
        evolve(each, step_bytes=0, memory_bytes=size * KIB, memory_limit=8 * KIB)
        for each, size in zip(placement.devices, (9, 12, 12, 7), strict=True)
    ]
    spec, placement = _spec(gpu_memory=8 * KIB), evolve(placement, devices=tuple(devices))
    messages = [each.message for each in too_full(spec, placement)]
    assert messages == [
        "a step needs 9.00 KiB on `cpu[0]`, 1.00 KiB more than `cpu_memory`",
        "a step needs 12.0 KiB on each of `gpu[0..1]`, 4.00 KiB more than `gpu_memory`",
    ]
    assert fullness(placement, View()) == [
        "memory                 forecast  there is    full",
        "cpu[0]                 9.00 KiB  8.00 KiB  112.5%",
        "gpu[0..1] (each of 2)  12.0 KiB  8.00 KiB  150.0%",
        "gpu[2]                 7.00 KiB  8.00 KiB   87.5%",
    ]


def test_one_kind_of_device_with_a_memory_is_a_limit() -> None:
    """Then the memory of a step is forecast although nobody asked for it."""
    assert has_limits(_spec(gpu_memory=KIB))
    assert has_limits(_spec(cpu_memory=KIB))
    assert not has_limits(_spec())


def test_without_a_limit_or_a_forecast_nothing_is_said() -> None:
    """Memory that no spec gives, and maps of graphs that nobody forecast, have no line."""
    placement = make_map(1)
    assert pools(placement) == ()
    limited = evolve(placement, devices=tuple(evolve(each, memory_limit=KIB) for each in placement.devices))
    known = all(each.memory_bytes is not None for each in placement.devices)
    assert bool(pools(limited)) == known
    assert fullness(placement, View()) == []


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    ("limit", "written", "advice"),
    [(6_000_000, "6MB", "`update { recompute = memory(6MB) }`"), (20_000, "20KB", "smaller batches")],
)
def test_the_setting_is_named_only_if_it_suffices(limit: int, written: str, advice: str) -> None:
    """The limit is that of the condition; if nothing reaches that, the help is the one of others."""
    spec = chain("none", blocks=4, width=64, batch=64)
    condition = ir.Condition(
        "memory", (ir.DeviceSet((ir.DevicePattern("cpu"),)),), "<=", limit, f"memory(cpu[*]) <= {written}"
    )
    compiled = compile_step(make_plan(evolve(spec, expect=ir.Expect((condition,)))))
    found = refusal_of(lambda: require_expectations(compiled, forecast_memory(compiled.step)))
    assert found.code == "TFD532"
    assert advice in (found.help or "")
    assert ("recompute" in (found.help or "")) == (limit > 100_000)


KIND = {"devices__kind": "v100"}


@cache
def compiled(expect: str = "", **settings: str) -> CompiledGraph:
    """Return the step of a small classifier, perhaps with a condition."""
    text = CLASSIFIER.format(clones=1, batch=4, optimizer="SGD(0.1)", layers="")
    return compile_step(make_plan(spec_of(f"{text}expect {{ {expect} }}\n", **settings)))


def test_a_forecast_needs_hardware_or_a_profile(tmp_path: Path) -> None:
    """The profile of the file that is named counts more than the kind of the hardware."""
    assert conditions.time_of(compiled()) is None
    assert conditions.map_time(compiled()) is None
    estimate = conditions.map_time(compiled(**KIND))
    assert estimate.estimate
    machine = MeasuredMachine("processor", 1, "2.0")
    slow = Profile(machine, (), 1.0, 0.0, 0.0, 1e9, 1e9, (), (), serial=1.0, parallel=1.0)
    path = tmp_path / "p.json"
    path.write_text(to_json(slow))
    for step in (compiled(), compiled(**KIND)):
        found = conditions.time_of(step, str(path))
        assert (found.for_map().source, found.for_map().estimate) == (str(path), False)
        assert found.seconds > 1.0 > estimate.seconds


@pytest.mark.parametrize(
    ("expect", "is_made"), [("", False), ("memory(cpu[0]) <= 1GB", False), ("step_time <= 1s", True)]
)
def test_a_forecast_is_made_only_for_a_condition(expect: str, *, is_made: bool) -> None:
    """It takes time itself."""
    assert (conditions.time_if_needed(compiled(expect, **KIND)) is not None) is is_made
