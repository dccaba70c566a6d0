"""The file of a profile, and the trace of a run beneath the forecast of its step."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from compiler.report.page.timeline import timeline_data
from compiler.time.forecast import forecast_step
from compiler.time.measured_trace import RunTrace, TraceEvent, join_alike, lay_beneath
from compiler.time.profile import LIMIT, find_profile, profile_beside, read_profile
from dsl.diagnostics import RunError
from dsl.files.typed_json import to_json
from tests.compiler.time.steps import OTHER_CPU, Machine, op, step
from tests.compiler.time.test_costs import PROFILE


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    """All figures come back."""
    path = tmp_path / "a.profile.json"
    path.write_text(to_json(PROFILE, indent=1), encoding="utf-8")
    assert read_profile(path) == PROFILE


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format_version": "2.0"}, "has format 2.0, and this version reads 1.x"),
        ({"op_start": -1e-6}, "has a time, a speed or a count that cannot be"),
        ({"awake": -1.0}, "has a time, a speed or a count that cannot be"),
        ({"flops_per_second": 0.0}, "has a time, a speed or a count that cannot be"),
        ({"flops_per_second": 5e-324}, "has a time, a speed or a count that cannot be"),
        ({"op_start": 1e308}, "has a time, a speed or a count that cannot be"),
        ({"machine": {"processor": "x", "cores": 2**62, "tensorflow": "2"}}, "a count that cannot be"),
        ({"ops": None}, "has `ops`, which is no list"),
        ({"machine": {"processor": "x", "tensorflow": "2"}}, "lacks `machine.cores`"),
        ({"links": [{"kind": "string", "latency": 0, "bytes_per_second": 1}]}, "links[0].kind"),
        ({"links": [{"kind": "network", "latency": 0, "bytes_per_second": 0}]}, "that cannot be"),
        ({"hand_over": "1"}, "has `hand_over`, which is no number"),
    ],
)
def test_a_damaged_profile_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    """The message names the file, the field and what is wrong with it."""
    path = tmp_path / "a.profile.json"
    path.write_text(json.dumps(json.loads(to_json(PROFILE)) | change), encoding="utf-8")
    with pytest.raises(RunError) as caught:
        read_profile(path)
    assert caught.value.diagnostic.code == "TFD755"
    assert str(path) in caught.value.diagnostic.message
    assert reason in caught.value.diagnostic.message


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00", "[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    """No text ends in anything but a diagnostic."""
    path = tmp_path / "a.profile.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RunError):
        read_profile(path)
    assert len(text) < LIMIT


def test_the_profile_beside_a_spec() -> None:
    """It has the name of the spec with another ending."""
    assert profile_beside("a/b.tfdeploy") == Path("a/b.profile.json")
    assert profile_beside("a/b") == Path("a/b.profile.json")


def test_a_profile_is_found_by_its_name_or_beside_its_spec(tmp_path: Path) -> None:
    """The file that was named comes before the one beside the spec, which need not be there."""
    spec, beside, named = (tmp_path / name for name in ("a.tfdeploy", "a.profile.json", "b.json"))
    named.write_text(to_json(PROFILE))
    assert find_profile(str(spec), None) is None
    for _ in range(2):
        found = find_profile(str(spec), str(named))
        assert (found.path, found.profile) == (str(named), PROFILE)
        beside.write_text(to_json(PROFILE))
    found = find_profile(str(spec), None)
    assert found.path == str(beside)


MEASURED = {"clone_0/a": (0, 4), "clone_1/a": (1, 9), "a": (2, 2), "b": (11, 5), "metric": (15, 3)}
"""When each op of the trace started and how long it ran, in milliseconds."""


def ran() -> RunTrace:
    """Return the trace of one step."""
    return RunTrace(
        tuple(
            TraceEvent("X", long * 1e3, {"name": name}, 7 + start * 1e3)
            for name, (start, long) in MEASURED.items()
        )
    )


def test_the_same_op_of_all_clones_is_told_of_as_one() -> None:
    """The name is that of the clone that differs most, and an op outside of clones is another one."""
    work = step([op("clone_0/a=3"), op("clone_1/a=3", OTHER_CPU), op("a=1"), op("b=5")], [])
    timed = forecast_step(work, Machine())
    plain = [evolve(each, name=each.name.partition("=")[0]) for each in work.ops]
    own = tuple(evolve(each, clone=at) if at < 2 else each for at, each in enumerate(plain))
    timed = evolve(timed, work=evolve(work, ops=own))
    joined = join_alike(lay_beneath(timed, ran()), timed.work)
    assert [(each.name, each.device, each.ops) for each in joined] == [
        ("clone_1/a", "cpu[1]", 2),
        ("a", "cpu[0]", 1),
        ("b", "cpu[0]", 1),
    ]
    milliseconds = [
        tuple(round(seconds * 1e3, 6) for seconds in (each.forecast, each.measured, each.difference))
        for each in joined
    ]
    assert milliseconds == [(6, 13, 7), (1, 2, 1), (5, 5, 0)]
    found = timeline_data(timed, ran())
    assert round(found["beneath"]["length"]) == 18_000  # with what the forecast leaves out
    assert found["until"] == found["beneath"]["length"]
    assert found["beneath"]["share"] == 1.0
    assert [each[2] for each in found["beneath"]["told"]] == [2, 1]  # that of `b` is as forecast
    busy = {row["label"]: row["measured_busy"] for row in found["rows"]}
    assert busy == {"cpu[0]": round((4 + 5) / 18, 4), "cpu[1]": 0.5}  # `a` runs while another op does


def test_no_span_is_compared_if_clones_update_by_themselves() -> None:
    """Their forecast is of several updates."""
    timed = forecast_step(step([op("a=3")], []), Machine())
    assert timeline_data(timed, ran())["beneath"]["span"] == 3_000.0
    several = evolve(timed, simulated=evolve(timed.simulated, updates=2))
    assert timeline_data(several, ran())["beneath"]["span"] is None
