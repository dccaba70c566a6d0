"""What a run does before its first step: the graph, where it begins, and the history that it goes on with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dsl.diagnostics import Diagnostic, RunError
from tests.runtime.records.test_history import line
from tests.runtime.train.test_course import REFUSED, Listener
from tfdeploy.runtime.records.result import Clock
from tfdeploy.runtime.train import run as module
from tfdeploy.runtime.train.run import _Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("wanted", "found", "done", "step"),
    [
        ("auto", None, ["resumed", "started"], None),
        ("auto", 40, ["resumed"], 40),
        ("must", 40, ["resumed"], 40),
        ("must", None, ["resumed"], "TFD735"),
        ("never", None, ["looked at weights", "cleared", "resumed", "started"], None),
    ],
)
def test_where_a_run_begins(wanted: Any, found: int | None, done: list[str], step: int | str | None) -> None:
    """At the newest checkpoint, or at its first weights; what was there goes only if that is wanted."""
    told: list[str] = []

    def resume(warn: Callable[[Diagnostic], None]) -> object:
        told.append("resumed")
        warn(REFUSED.diagnostic)
        return None if found is None else SimpleNamespace(step=found)

    listener = Listener()
    run: Any = SimpleNamespace(
        spec="spec",
        reporter=listener,
        directory=SimpleNamespace(
            clear=lambda spec: told.append("cleared" if spec == "spec" else "?"),
            store=SimpleNamespace(directory="runs/x/checkpoints"),
        ),
        _require_weights_elsewhere=lambda: told.append("looked at weights"),
        _start_from_weights=lambda engine: told.append("started" if engine == "engine" else "?"),
    )
    checkpoints: Any = SimpleNamespace(resume=resume, engine="engine")
    if isinstance(step, str):
        with pytest.raises(RunError) as caught:
            _Run._resume(run, checkpoints, wanted)
        assert caught.value.diagnostic.code == step
        assert "runs/x/checkpoints" in caught.value.diagnostic.message
    else:
        assert _Run._resume(run, checkpoints, wanted) == step
    assert told == done
    assert listener.warnings == [REFUSED.diagnostic]


@pytest.mark.parametrize(("broken", "last"), [(0, None), (2, 40)])
def test_a_history_is_mended_up_to_the_checkpoint(tmp_path: Path, broken: int, last: int | None) -> None:
    """Damaged lines are told of, and lines of steps that are made again are not."""
    path = tmp_path / "history.jsonl"
    lines = [line(10).to_json(), *["damage"] * broken, line(20).to_json(), line(50).to_json()]
    path.write_text("".join(f"{each}\n" for each in lines))
    listener = Listener()
    run: Any = SimpleNamespace(directory=SimpleNamespace(history=path), guard=None, reporter=listener)
    history = _Run._repaired_history(run, 0 if last is None else last)
    assert [each.step for each in history.records] == ([] if last is None else [10, 20])
    assert len(listener.warnings) == bool(broken)
    assert all(str(path) in each.message for each in listener.warnings)


@pytest.mark.parametrize(
    ("resume", "checkpoints", "launched", "goes_on"),
    [("auto", 1, True, True), ("auto", 0, False, False), ("never", 1, False, False)],
)
def test_what_a_run_finds_out_before_it_trains(
    monkeypatch: pytest.MonkeyPatch, resume: Any, checkpoints: int, *, launched: bool, goes_on: bool
) -> None:
    """The graph is built, must have room and hold what is expected, and is shown with how long that took."""
    told: list[tuple[object, ...]] = []

    def note(name: str, answer: object) -> Callable[..., object]:
        def call(*given: object, **named: object) -> object:
            told.append((name, *given, *named.items()))
            return answer

        return call

    now = iter((100.0, 104.5))
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    for name, answer in (
        ("adapted_for_run", "adapted"),
        ("graph_of", "graph"),
        ("require_savable", None),
        ("require_room", None),
        ("forecast_if_needed", "memory"),
        ("warnings_of", [REFUSED.diagnostic]),
        ("time_if_needed", "time"),
        ("require_expectations", None),
    ):
        monkeypatch.setattr(module, name, note(name, answer))
    monkeypatch.setattr(module, "memory_limit", lambda: 7)
    monkeypatch.setattr(module, "folder_of", lambda spec: f"folder of {spec}")
    membership = SimpleNamespace(launcher=1 if launched else None)
    directory = SimpleNamespace(store=SimpleNamespace(whole=lambda: [None] * checkpoints))
    listener: Any = Listener()
    listener.compiled = note("shown", None)
    run: Any = SimpleNamespace(
        spec="the spec",
        plan=SimpleNamespace(model=SimpleNamespace(name="small")),
        directory=directory,
        options=SimpleNamespace(resume=resume, membership=membership),
        reporter=listener,
        seed=11,
        memory={},
        time=None,
        clock=Clock(),
        _placement_of=lambda compiled: f"map of {compiled}",
    )
    assert _Run._compile(run) == "graph"
    assert told == [
        ("adapted_for_run", run.plan, directory, ("goes_on", goes_on)),
        ("graph_of", "adapted", ("seed", 11)),
        ("require_room", "graph", 7, ("launched", launched)),
        ("require_savable", "graph", ("base", "folder of the spec")),
        ("forecast_if_needed", "graph"),
        ("warnings_of", "graph", "memory"),
        ("time_if_needed", "graph"),
        ("require_expectations", "graph", "memory", "time"),
        ("shown", "map of graph", "small", 4.5),
    ]
    assert listener.warnings == [REFUSED.diagnostic]
    assert run.clock.compile == 4.5
