"""Figures of a run in words."""

from typing import Any

import pytest
from attrs import evolve

from tests.support import make_result
from tfdeploy.runtime.records.result import Best, Evaluated, Seconds, SplitResult
from tfdeploy.runtime.show import reporting
from tfdeploy.runtime.show.reporting import evaluation_lines, summary_rows


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 s"),
        (0.424, "0.42 s"),
        (9.99, "9.99 s"),
        (9.996, "10.0 s"),
        (10.0, "10.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (60.0, "1 min 0 s"),
        (200.4, "3 min 20 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (7510.0, "2 h 5 min"),
        (90000.0, "25 h 0 min"),
    ],
)
def test_a_duration_has_the_units_that_it_needs(seconds: float, text: str) -> None:
    """The unit is that of the number that is shown, also of one that is rounded up to the next unit."""
    assert reporting.duration(seconds) == text


def test_counts_shares_and_speeds() -> None:
    """Digits come in groups, shares are percentages, and of a speed that is not known nothing is said."""
    assert reporting.number(1234567) == "1,234,567"
    assert reporting.percent(0.375) == "38 %"
    assert (reporting.speed(12345.6), reporting.speed(None)) == ("12,346 examples/s", "")


TEST = SplitResult(0.25, {"accuracy": 0.75, "auc": 0.5}, 1797)
DONE = make_result(
    steps=1200,
    examples_per_second=12345.6,
    seconds=Seconds(1.0, 2.0, 50.0, 3.0, 4.0, 19.0),
    model="runs/x/model.keras",
)


def test_the_summary_of_a_run() -> None:
    """It has a title and a row for all that is known, in an order that does not change."""
    full = evolve(DONE, validation=TEST, test=TEST, best=Best(1100, "highest", "accuracy", 0.875))
    said = "loss 0.2500  accuracy 0.7500  auc 0.5000  (1,797 examples)"
    assert summary_rows(full) == [
        ("", "finished at step 1,200"),
        ("best", "accuracy 0.8750 at step 1,100"),
        ("validation", said),
        ("test", said),
        ("speed", "12,346 examples/s"),
        (
            "time",
            "compile 1.00 s, first step 2.00 s, training 50.0 s, evaluation 3.00 s, checkpoints 4.00 s",
        ),
        ("data", "waited for 19.0 s, 38 % of the training"),
        ("model", "runs/x/model.keras"),
        ("directory", "runs/x"),
    ]


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ({"stopped_early": True}, ("", "finished at step 1,200, stopped early")),
        ({"stopped_early": True, "status": "interrupted"}, ("", "interrupted at step 1,200")),
        ({"model": None}, ("to go on", "run the same command again")),
        ({"seconds": Seconds(1.0, None, 0.0)}, ("time", "compile 1.00 s")),
        (
            {"seconds": Seconds(1.0, 2.0, 4.0, 0.0, 0.0, 5.0)},
            ("data", "waited for 5.00 s, 100 % of the training"),
        ),
    ],
)
def test_the_summary_says_what_became_of_a_run(change: dict[str, Any], row: tuple[str, str]) -> None:
    """A run that was interrupted is not called stopped early; what took no time is not named."""
    assert row in summary_rows(evolve(DONE, **change))


def test_the_summary_leaves_out_what_is_not_known() -> None:
    """A run without steps has no speed and no waiting, and one without a model can be continued."""
    rows = summary_rows(
        evolve(DONE, examples_per_second=None, seconds=Seconds(1.0, None, 0.0, data_waiting=0.0))
    )
    assert [label for label, _ in rows] == ["", "time", "model", "directory"]


def test_the_scores_of_a_checkpoint_are_aligned() -> None:
    """The names of the splits have the same width."""
    found = Evaluated("runs/x/ckpt-5", 1200, {"validation": TEST, "test": SplitResult(0.5, {}, 7)})
    assert evaluation_lines(found) == [
        "runs/x/ckpt-5, step 1,200",
        "  validation  loss 0.2500  accuracy 0.7500  auc 0.5000  (1,797 examples)",
        "  test        loss 0.5000  (7 examples)",
    ]
    assert evaluation_lines(Evaluated("c", 0, {})) == ["c, step 0"]
