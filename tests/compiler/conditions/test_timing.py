"""What a forecast of the time of a step is made from, and when it is made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from compiler import conditions
from compiler.time.forecast import forecast_step
from tests.compiler.time.steps import Machine, op, step
from tests.support import classifier


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace the forecast of a graph by one of 3 ms; return the profiles that it is asked for with."""
    profiles: list[Any] = []

    def forecast_time(_: Any, profile: Any) -> Any:
        profiles.append(profile)
        return forecast_step(step([op("a=3")], []), Machine())

    monkeypatch.setattr(conditions, "sized_step", lambda compiled: compiled.step)
    monkeypatch.setattr(conditions, "forecast_time", forecast_time)
    return profiles


def graph(**devices: Any) -> Any:
    """Return what stands for the graph of a spec with such devices."""
    spec = classifier()
    plan = SimpleNamespace(spec=evolve(spec, devices=evolve(spec.devices, **devices)))
    return SimpleNamespace(plan=plan, step=SimpleNamespace(plan=plan))


def test_a_forecast_names_what_it_is_made_from(monkeypatch: pytest.MonkeyPatch, forecast: list[Any]) -> None:
    """The file of a profile, the hardware that the spec names, or nothing."""
    for devices, source in (({"kind": "v100"}, "v100"), ({}, "")):
        found = conditions.map_time(graph(**devices))
        assert found is not None
        assert (found.source, found.seconds) == (source, pytest.approx(3e-3))
    profile = SimpleNamespace(path="p.json", profile="costs")
    monkeypatch.setattr(conditions, "find_profile", lambda *asked: profile if asked[1] == "p.json" else None)
    measured = conditions.time_of(graph(kind="v100"), "p.json")
    assert measured is not None
    assert measured[1] == "p.json"
    assert forecast == [None, None, "costs"]
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
