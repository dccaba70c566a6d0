"""The link between two tasks, measured in a process of its own, whose servers end with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from compiler.time.profile import LinkCost
from dsl.diagnostics import RunError
from dsl.files.typed_json import parse_record
from tests.folders import ROOT
from tests.forked import Popen
from tfdeploy.runtime.calibrate.network import (
    FEW,
    FREE,
    SEVERAL,
    SMALL,
    StepTime,
    _other,
    costs_of,
    large_of,
)

PROGRAM = """
from dsl.files.typed_json import to_json
from tfdeploy.runtime.calibrate import network
network.WARM, network.STEPS = 2, 18
with network.link_measured(1 << 22, turns=3) as link:
    assert link.number == 6
    for _ in range(3):
        link.take_turn()
    costs = link.costs()
    assert costs["cluster_start"] > 0
    assert costs["cluster_processors"] > 0
    print(to_json(costs["links"][0]))
"""


@pytest.mark.full
def test_a_link_has_a_latency_and_a_speed() -> None:
    """Large tensors take longer than small ones, and a step of two tasks takes time without any."""
    process = Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found = parse_record(out.splitlines()[-1], LinkCost)
    assert found.kind == "network"
    assert found.latency >= 0
    assert 0 < found.bytes_per_second < 1e12
    assert found.message >= 0
    assert found.processors > 0  # both tasks copy what is sent
    assert 0 < found.work < 1
    assert FREE == "127.0.0.1:0"


def test_costs_follow_from_the_differences_of_steps() -> None:
    """Times are in microseconds, and those of processors are half as long again."""

    def step(seconds: float, processor: float | None = None) -> StepTime:
        return StepTime(seconds, 1.5 * seconds if processor is None else processor)

    found = {
        "nothing": step(600),
        "one": step(600 + 100 + 30),  # the latency, and a message
        "several": step(600 + 100 + 30 * SEVERAL),
        "much": step(600 + 100 + 30 * FEW + 4000),
        "receiver": step(5000),
        "asking": step(5000 + 100 + 40 * SEVERAL),
        "sender": step(6000),
        "giving": step(6000 + 100 + 50 * SEVERAL),
        "both": step(7000, 10_000),
        "exchanging": step(9000, 10_000 + 120 * SEVERAL),
    }
    costs = costs_of(found, 4_000_000)
    assert (costs["cluster_start"], costs["cluster_processors"]) == pytest.approx((600, 1.5))
    (link,) = costs["links"]
    assert (link.latency, link.message, link.asking, link.giving) == pytest.approx((100, 30, 40, 50))
    assert (link.work, link.processors) == pytest.approx((120, 1.5))
    assert link.bytes_per_second == pytest.approx((FEW * 4_000_000 - SMALL) / 4000, rel=0.01)
    still = {**found, "asking": step(4000), "giving": step(5000), "exchanging": step(6000, 0.0)}
    (link,) = costs_of(still, 1 << 20)["links"]
    assert (link.asking, link.giving, link.work) == (0, 0, 0)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("echo 'MemoryError: no room' >&2; exit 3", "with status 3: MemoryError: no room"),
        ("kill -9 $$", "by signal 9"),
    ],
)
def test_a_process_that_does_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, expected: str
) -> None:
    """What it said last is the reason why the link cannot be measured."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{ends}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(RunError) as found, _other():
        pytest.fail("the process has ended before it was asked for anything")
    assert found.value.diagnostic.code == "TFD756"
    assert found.value.diagnostic.notes == (f"the second process ended {expected}",)


def test_a_large_tensor_is_as_large_as_the_largest_of_the_spec() -> None:
    """It has at least a mebibyte, which small models have not, and at most 16."""
    sizes = ([], [5], [3 << 20, 7 << 20], [1 << 30])
    assert [large_of(each) for each in sizes] == [1 << 20, 1 << 20, 7 << 20, 1 << 24]
