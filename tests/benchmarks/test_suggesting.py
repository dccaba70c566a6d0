"""The benchmark of `suggest` tells what it takes beyond the compile."""

from __future__ import annotations

from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from benchmarks import suggesting


def test_the_difference_of_the_least_times_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands take turns with the same settings, and each counts with its shortest time."""
    asked: list[Sequence[str]] = []
    times = iter((9.0, 11.5, 8.0, 12.0))
    monkeypatch.setattr(suggesting, "seconds", lambda command: asked.append(command) or next(times))
    result = CliRunner().invoke(suggesting.main, ["--turns", "2"])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1].split() == ["resnet50", "8.00", "s", "11.50", "s", "3.50", "s"]
    assert [each[0] for each in asked] == ["plan", "suggest"] * 2
    assert asked[0][2:] == asked[1][1:]
    assert "devices.gpu=8" in asked[0]


def test_the_time_is_that_of_the_command() -> None:
    """It is that of the process that was started, and a command that fails is named."""
    assert 0 < suggesting.seconds(["--help"]) < 100
    with pytest.raises(click.ClickException, match="nowhere"):
        suggesting.seconds(["check", "nowhere.tfdeploy"])
