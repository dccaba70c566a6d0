"""What is told of a suggestion, as text and as JSON."""

import json
from typing import Any

import pytest
from attrs import evolve

from compiler.suggest.outcome import Figures, Goal
from compiler.suggest.text import Suggestion, suggestion_json, suggestion_text

BEFORE = Figures(0, 0.010, ("gpu[0]", 2048), ("cpu[0]", 1024), 4096, "cpu[0], busy 90 % of the time")
AFTER = Figures(0, 0.005, ("gpu[1]", 3072), ("cpu[0]", 512), 0)
FOUND = Suggestion(
    "a.tfdeploy",
    Goal.STEP_TIME,
    ("clones -> gpu[*]", "variables -> gpu[0]"),
    BEFORE,
    AFTER,
    0.004,
    1,
    7,
    values={("update", "pack"): "1MiB", ("clones", "batch"): "4", ("update", "aggregate"): "tree"},
    notes=("one note", "another"),
)


def test_a_suggestion_has_the_blocks_in_the_order_of_specs() -> None:
    """Then the figures before and after, the notes, and how far it is from what is possible."""
    assert [" ".join(line.split()) for line in suggestion_text(FOUND).splitlines()] == [
        "a.tfdeploy: for step_time, 1 placement built, 7 more compared",
        "",
        "clones {",
        "batch = 4",
        "}",
        "place {",
        "clones -> gpu[*]",
        "variables -> gpu[0]",
        "}",
        "update {",
        "pack = 1MiB",
        "aggregate = tree",
        "}",
        "",
        "before after",
        "time of a step 10.0 ms 5.00 ms",
        "memory of the fullest device gpu[0], then gpu[1] 2.00 KiB 3.00 KiB",
        "variables and slots on one device cpu[0] 1.00 KiB 512 B",
        "sent in a step 4.00 KiB .",
        "",
        "one note",
        "another",
        "",
        "no placement is below 4.00 ms; this is 5.00 ms, 1.25 times that",
    ]


def test_rules_that_are_the_best_stay() -> None:
    """Nothing is to be written then, whatever the figures are from; what is the bottleneck is told."""
    same = evolve(FOUND, after=BEFORE, compared=0, tried=2, estimate="an estimate", notes=(), bound=0.0)
    assert not same.improved
    assert FOUND.improved
    first, estimate, *_, last, bottleneck = suggestion_text(same).splitlines()
    assert (first, estimate) == ("a.tfdeploy: for step_time, 2 placements built", "an estimate")
    assert "none of them is better than the rules of the spec" in suggestion_text(same)
    assert "place {" not in suggestion_text(same)
    assert last == "no placement is below .; this is 10.0 ms"
    assert bottleneck == "bottleneck: cpu[0], busy 90 % of the time"


def test_memory_that_is_missing_is_told() -> None:
    """Before and after, if it was missing before; what takes it is listed if it is missing still."""
    lacking = evolve(BEFORE, missing=100)
    mended = evolve(FOUND, before=lacking, largest=("gpu[0]: much",))
    assert "missing memory" in suggestion_text(mended)
    assert "gpu[0]: much" not in suggestion_text(mended)
    still = evolve(FOUND, before=lacking, after=evolve(AFTER, missing=50), largest=("gpu[0]: much",))
    *_, missing, line = suggestion_text(still).splitlines()
    assert (missing, line) == ("nothing that was tried fits: 50 B are missing", "  gpu[0]: much")
    assert "missing" not in suggestion_text(FOUND)


@pytest.mark.parametrize(
    ("goal", "told"),
    [
        (Goal.MEMORY, "no placement is below 300 B; this is 3.00 KiB, 10.23 times that"),
        (Goal.BALANCE, "no placement is below 300 B; this is 512 B, 1.71 times that"),
    ],
)
def test_goals_of_bytes_need_no_time(goal: Goal, told: str) -> None:
    """Their bounds are sizes, and without a forecast there is no row of times."""
    before, after = (evolve(each, seconds=None) for each in (BEFORE, AFTER))
    text = suggestion_text(evolve(FOUND, goal=goal, bound=300.2, before=before, after=after))
    assert told in text.splitlines()
    assert "time of a step" not in text
    assert "time of a step" not in suggestion_text(evolve(FOUND, goal=goal, before=before))


def test_a_suggestion_as_json() -> None:
    """All that the text says, in bytes and seconds, and null for what there is not."""
    found: dict[str, Any] = json.loads(suggestion_json(FOUND))
    assert found == {
        "spec": "a.tfdeploy",
        "goal": "step_time",
        "improved": True,
        "rules": ["clones -> gpu[*]", "variables -> gpu[0]"],
        "values": {"update.pack": "1MiB", "clones.batch": "4", "update.aggregate": "tree"},
        "notes": ["one note", "another"],
        "before": {
            "seconds": 0.010,
            "fullest": {"device": "gpu[0]", "bytes": 2048},
            "heaviest": {"device": "cpu[0]", "bytes": 1024},
            "sent": 4096,
            "missing": 0,
            "bottleneck": "cpu[0], busy 90 % of the time",
        },
        "after": {
            "seconds": 0.005,
            "fullest": {"device": "gpu[1]", "bytes": 3072},
            "heaviest": {"device": "cpu[0]", "bytes": 512},
            "sent": 0,
            "missing": 0,
            "bottleneck": None,
        },
        "bound": 0.004,
        "gap": 1.25,
        "built": 1,
        "compared": 7,
        "estimate": None,
        "missing": [],
    }
    without = json.loads(suggestion_json(evolve(FOUND, bound=0.0, estimate="an estimate", largest=("x",))))
    assert (without["gap"], without["estimate"], without["missing"]) == (None, "an estimate", ["x"])
