"""The best checkpoint by a score, and ending when there is no better one for long."""

import math
from pathlib import Path

import pytest

from dsl.diagnostics import Diagnostic
from tests.specs import LINE
from tests.support import spec_of
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.result import Best, Goal
from tfdeploy.runtime.train.evaluation import BestTracker


def unheard(warning: Diagnostic) -> None:
    """Fail, for nothing is amiss."""
    raise AssertionError(warning)


def tracker(path: Path, goal: Goal = "highest", patience: int | None = None) -> BestTracker:
    """Return a tracker for the accuracy."""
    return BestTracker(goal, "accuracy", patience, path / "best.json")


@pytest.mark.parametrize(
    ("goal", "bests"), [("highest", [True, True, False, False]), ("lowest", [True, False, True, False])]
)
def test_what_is_better(tmp_path: Path, goal: Goal, bests: list[bool]) -> None:
    """An evaluation is the best when it beats all before it; what is not finite never is."""
    judged = tracker(tmp_path, goal)
    scores = (0.5, 0.7, 0.4, math.nan)
    assert [judged.compare(step, 1.0, {"accuracy": score}) for step, score in enumerate(scores)] == bests


def test_patience(tmp_path: Path) -> None:
    """The tracker is over after so many evaluations in a row that are no better."""
    judged = tracker(tmp_path, patience=2)
    over = []
    for step, score in enumerate((0.5, 0.5, 0.6, 0.6, 0.1)):
        judged.compare(step, 1.0, {"accuracy": score})
        over.append(judged.is_over)
    assert over == [False, False, False, False, True]
    assert judged.best == Best(2, "highest", "accuracy", 0.6)


def test_a_score_that_is_not_there_is_never_the_best(tmp_path: Path) -> None:
    """An evaluation without the metric, or with one that is infinite, is one more without a better one."""
    judged = tracker(tmp_path, patience=2)
    assert not judged.compare(1, 1.0, {})
    assert not judged.compare(2, 1.0, {"accuracy": math.inf})
    assert (judged.best, judged.since, judged.is_over) == (None, 2, True)
    judged.save()
    assert not judged.path.exists()
    without = tracker(tmp_path)
    without.since = 1000
    assert not without.is_over


def test_the_loss_is_a_score(tmp_path: Path) -> None:
    """`lowest("loss")` compares the loss."""
    text = f"""{LINE}
    data {{
      train = csv("a.csv", x = "x*", y = "y")
      test = csv("b.csv", x = "x*", y = "y")
    }}
    train {{ steps = 4, evaluate_every = 1, best = lowest("loss"), patience = 3 }}
    """
    judged = BestTracker.of(spec_of(text).train, tmp_path / "best.json")
    assert judged == BestTracker("lowest", "loss", 3, tmp_path / "best.json")
    assert judged.compare(1, 0.5, {})


def test_going_on(tmp_path: Path) -> None:
    """A run that goes on knows its best and the evaluations since; a best that was lost does not count."""
    first = tracker(tmp_path)
    first.compare(20, 1.0, {"accuracy": 0.7})
    first.save()
    lines = [
        HistoryRecord(step=step, split=split, loss=1.0, data_loss=1.0)
        for step, split in ((10, "test"), (20, "test"), (25, "train"), (30, "test"), (40, "test"))
    ]
    again = tracker(tmp_path)
    again.resume(40, lines, "test", unheard)
    assert (again.best, again.since) == (first.best, 2)
    lost = tracker(tmp_path)
    lost.resume(10, lines, "test", unheard)
    assert (lost.best, lost.since) == (None, 0)
    other = tracker(tmp_path, "lowest")
    other.resume(40, lines, "test", unheard)
    assert other.best is None
