"""A run that is ended at random moments is always gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runtime.conftest import Project
from tests.runtime.train import kills


@pytest.mark.full
def test_no_end_leaves_a_run_that_cannot_go_on(tmp_path: Path) -> None:
    """Killed, interrupted, terminated, with a full disk, one after the other, it ends as if undisturbed."""
    ordeal = kills.run(tmp_path, times=4, seed=3)
    assert {each.blow.way for each in ordeal.outcomes} == set(kills.WAYS)


def test_moments_are_drawn_by_seed() -> None:
    """The same seed gives the same blows; each way comes in its turn, at moments of its own."""
    blows = kills.draw(25, seed=1)
    assert blows == kills.draw(25, seed=1)
    assert blows != kills.draw(25, seed=2)
    assert {way: sum(each.way == way for each in blows) for way in kills.WAYS} == {
        "SIGKILL": 7,
        "SIGTERM": 6,
        "SIGINT": 6,
        "full disk": 6,
    }
    assert len({each.after for each in blows}) == 25


@pytest.mark.full
def test_an_evaluation_that_was_missed_is_made_up_for(project: Project) -> None:
    """Where a signal has ended the process before it was done, the next does it, with the same weights."""
    project.run(train__steps=40, train__evaluate_every=20)
    path, whole = project.run_directory / "history.jsonl", project.history()
    kept = [line for line in whole if (line["split"], line["step"]) != ("test", 40)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    project.run(train__steps=50, train__evaluate_every=20)
    scores = {line["step"]: line["loss"] for line in whole if line["split"] == "test"}
    again = [(line["step"], line["loss"]) for line in project.history() if line["split"] == "test"]
    assert again[:2] == [*scores.items()]
    assert [step for step, _ in again] == [20, 40, 50]
