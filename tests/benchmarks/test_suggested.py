"""What `suggest` finds is measured against all layouts of as many clones that were written by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from benchmarks.forecasts import suggested as benchmark
from benchmarks.forecasts.cases import TOGETHER, Case, cases
from benchmarks.forecasts.turn_effects import Step


def test_layouts_by_hand_have_four_clones_and_fit_one_process() -> None:
    """They are all of those layouts; and what is suggested is measured in the same process."""
    found = list(benchmark.by_hand("mlp"))
    assert [each.name for each in found] == [
        "4 clones, default threads",
        "4 clones, default threads, aggregate = tree",
        "4 clones, default threads, variables -> balanced(cpu[*])",
        "4 clones, default threads, pack = 64MiB",
    ]
    assert TOGETHER in found[0].text
    own = benchmark.Suggested("mlp", "clones", 4, written="the text")
    assert (own.name, own.text) == ("suggested", "the text")
    assert {(each.tasks, each.pool) for each in (*found, own)} == {(1, 1)}


def test_suggest_gets_the_profile_and_writes_into_a_copy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rules are those that it has written; if it fails, its message is told."""

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        assert command[1:4] == ["-m", "tfdeploy", "suggest"]
        assert command[5:] == [
            f"--profile={tmp_path / 'mlp.profile.json'}",
            "--vary=aggregate,pack",
            "--write",
        ]
        with Path(command[4]).open("a", encoding="utf-8") as file:
            file.write("more\n")
        return SimpleNamespace(returncode=code, stderr="not found\n")

    monkeypatch.setattr(benchmark.subprocess, "run", run)
    code = 0
    assert benchmark.suggested("text\n", tmp_path / "mlp.profile.json") == "text\nmore\n"
    code = 2
    with pytest.raises(click.ClickException, match="suggest has failed: not found"):
        benchmark.suggested("text\n", tmp_path / "mlp.profile.json")


def test_it_prints_the_time_of_each_layout_and_what_was_suggested(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The suggestion stands last. Without a profile of the model, nothing is measured."""
    first = next(iter(cases("mlp")))
    asked: list[Case] = []

    def measured(layouts: list[Case], turns: int, seconds: float) -> list[Step]:
        assert (turns, seconds) == (3, 0.5)
        asked.extend(layouts)
        return [Step(0.001 * (at + 1), 0.02) for at in range(len(layouts))]

    monkeypatch.setattr(benchmark, "RESULTS", tmp_path)
    monkeypatch.setattr(benchmark, "by_hand", lambda _: iter([first]))
    monkeypatch.setattr(benchmark, "suggested", lambda text, _: text + "  a rule\n")
    monkeypatch.setattr(benchmark, "measured", measured)
    arguments = ["--model", "mlp", "--turns", "3", "--seconds", "0.5"]
    missing = CliRunner().invoke(benchmark.main, arguments)
    assert missing.exit_code == 1
    assert "run `python -m benchmarks.forecasts` first" in missing.output
    (tmp_path / "mlp.profile.json").touch()
    lines = CliRunner().invoke(benchmark.main, arguments).output.splitlines()
    assert [each.text for each in asked] == [first.text, first.text + "  a rule\n"]
    assert lines[0].split() == ["mlp", "1", "clone,", "1", "thread", "1.00", "ms,", "noise", "2.0%"]
    assert lines[1].split()[1:3] == ["suggested", "2.00"]
    assert lines[2].split(None, 1) == ["mlp", "suggested: a rule"]
