"""Forecasts of memory and time: held against what a spec gives, what would help, and when they are made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from compiler import conditions
from compiler.conditions import has_limits, require_expectations, too_full
from compiler.graph.build import compile_step
from compiler.pipeline import make_plan
from compiler.report.devices import pools
from compiler.report.terminal import fullness
from compiler.report.view import View
from compiler.step.read.memory import forecast_memory
from compiler.time.forecast import forecast_step
from dsl import ir
from tests.compiler.graph.tower.test_recompute import chain
from tests.compiler.time.steps import Machine, op, step
from tests.placement_maps import make_map
from tests.support import classifier, refusal_of

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


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the forecast of a graph by one of 3 ms; return the profiles that it is asked for with."""
    profiles: list[Any] = []

    def forecast_time(_: Any, machine: Any) -> Any:
        profiles.append(machine)
        return forecast_step(step([op("a=3")], []), Machine())

    monkeypatch.setattr(conditions, "forecast_time", forecast_time)
    return profiles


def graph(**devices: Any) -> Any:
    """Return what stands for the graph of a spec with such devices."""
    spec = classifier()
    plan = SimpleNamespace(spec=evolve(spec, devices=evolve(spec.devices, **devices)))
    step = SimpleNamespace(plan=plan)
    return SimpleNamespace(plan=plan, step=step, sized_step=step)


def test_a_forecast_is_made_from_the_profile_that_is_found(
    monkeypatch: pytest.MonkeyPatch, forecast: list[Any]
) -> None:
    """That of the file that is named, or none."""
    found = conditions.map_time(graph(kind="v100"))
    assert found is not None
    assert found.seconds == pytest.approx(3e-3)
    monkeypatch.setattr(conditions, "find_profile", lambda *asked: "costs" if asked[1] == "p.json" else None)
    assert conditions.time_of(graph(kind="v100"), "p.json") is not None
    assert forecast == [None, "costs"]
    monkeypatch.setattr(conditions, "forecast_time", lambda *_: None)
    assert conditions.time_of(graph()) is conditions.map_time(graph()) is None


def test_a_forecast_is_made_only_for_a_condition(
    monkeypatch: pytest.MonkeyPatch, forecast: list[Any]
) -> None:
    """It takes time itself."""
    monkeypatch.setattr(conditions, "needs_time", lambda _: False)
    assert conditions.time_if_needed(graph()) is None
    assert forecast == []
    monkeypatch.setattr(conditions, "needs_time", lambda _: True)
    found = conditions.time_if_needed(graph())
    assert found is not None
    assert found.seconds == pytest.approx(3e-3)
