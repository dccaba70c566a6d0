"""Runs that wait for their data are told so, and others are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tensorflow.python.framework.config import disable_op_determinism

from tests.runtime.train.test_exports import events_of
from tfdeploy.runtime.records.result import Result, Seconds
from tfdeploy.runtime.show.reporting import Reporter
from tfdeploy.runtime.show.words import summary_rows
from tfdeploy.runtime.train import waiting

if TYPE_CHECKING:
    from tests.runtime.conftest import Project

EXAMPLES = """
import time

import numpy as np


def examples(pause):
    while True:
        time.sleep(pause)
        yield {"image": np.ones(256, np.float32), "digit": np.int32(3)}
"""

SPEC = """
tfdeploy = 1
model "small" {{
  image = input(float32, [256])
  digit = input(int32, [])
  logits = image {layers} -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}
data {{
  train = {source}
}}
devices {{ {devices} }}
clones {{ count = 2, batch = {batch} }}
update {{ optimizer = SGD(0.1), mode = {mode} }}
train {{ steps = {steps}, log_every = 5 }}
"""

SLOW = 'python("slow:examples", pause = 0.012)'


class Heard(Reporter):
    """Keeps what is said about waiting."""

    def __init__(self) -> None:
        self.said: list[tuple[float, str]] = []

    def waiting(self, share: float, remedy: str) -> None:
        """Keep it."""
        self.said.append((share, remedy))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second of training tells enough; steps may ask for the time."""
    monkeypatch.setattr(waiting, "TELLING", 0.5)
    disable_op_determinism()


def train(project: Project, reporter: Reporter, **settings: Any) -> Result:
    """Train a spec of these settings."""
    from tfdeploy import api

    filled = {"mode": "sync", "layers": "", "batch": 4, "steps": 40, "devices": "cpu = 2", **settings}
    project.write(SPEC.format(**filled))
    (project.folder / "slow.py").write_text(EXAMPLES)
    overrides = {"train.directory": str(project.run_directory)}
    spec = api.load(project.spec, overrides, allow_python=True)
    found: Result = api.run(spec, emulate=True, reporter=reporter)
    return found


@pytest.mark.parametrize(
    ("mode", "devices"),
    [("sync", "cpu = 2"), ("async", "cpu = 2"), ("sync", "gpu = 2"), ("async", "gpu = 2")],
)
def test_a_slow_source_is_waited_for(project: Project, mode: str, devices: str) -> None:
    """Nearly all of the time goes in waiting: said once, with what helps, and kept in all results."""
    heard = Heard()
    result = train(project, heard, source=SLOW, mode=mode, devices=devices)
    assert result.seconds.data_waiting is not None
    assert 0.85 * result.seconds.train < result.seconds.data_waiting <= result.seconds.train
    assert len(heard.said) == 1
    share, remedy = heard.said[0]
    assert share > 0.85
    assert remedy.startswith("the source `python` yields examples one by one")
    written = json.loads((project.run_directory / "result.json").read_text())["seconds"]["data_waiting"]
    assert written == pytest.approx(result.seconds.data_waiting, abs=1e-3)
    shares = {line["step"]: line["data_waiting"] for line in project.history() if "data_waiting" in line}
    assert shares.keys() == {*range(5, 41, 5)}
    assert min([*shares.values()][1:]) > 0.7  # the first line has the steps that are traced
    events = events_of(project.run_directory / "events" / "train")
    drawn = {
        event.step: value.simple_value
        for event in events
        for value in event.summary.value
        if value.tag == "data_waiting"
    }
    assert drawn == pytest.approx(shares, abs=1e-4)


@pytest.mark.parametrize("devices", ["cpu = 2", "gpu = 2"])
def test_a_quick_source_is_not(project: Project, devices: str) -> None:
    """Where the steps are what takes long, nothing is said, and little time is counted."""
    heard = Heard()
    settings = {"layers": "-> Dense(1024) -> Dense(1024)", "batch": 256, "steps": 40, "devices": devices}
    result = train(
        project,
        heard,
        source="synthetic(512, image = feature(float32, [256]), digit = feature(int32, [], 10)) -> cache()",
        **settings,
    )
    assert heard.said == []
    assert result.seconds.train > waiting.TELLING
    assert result.seconds.data_waiting is not None
    assert result.seconds.data_waiting < 0.2 * result.seconds.train


def test_with_deterministic_ops_it_is_not_known(project: Project) -> None:
    """TensorFlow does not tell the time then: nothing is claimed."""
    result = project.run(train__steps=20)
    assert result.seconds.data_waiting is None
    assert all("data_waiting" not in line for line in project.history())
    assert "data" not in dict(summary_rows(result))


def test_the_summary_says_how_long_and_what_part() -> None:
    """Seconds and the share of the training."""
    seconds = Seconds(1.0, 0.5, 50.0, data_waiting=19.0)
    result = Result(
        status="finished",
        steps=100,
        loss=0.5,
        metrics={},
        examples_per_second=10.0,
        seconds=seconds,
        directory="runs/x",
    )
    assert dict(summary_rows(result))["data"] == "waited for 19.0 s, 38 % of the training"


@pytest.mark.parametrize(
    ("transforms", "begins"),
    [("", "if the examples fit into memory, `-> cache()`"), ("-> cache()", "steps with more work in them")],
)
def test_what_helps_depends_on_the_data(project: Project, transforms: str, begins: str) -> None:
    """A cache is advised where there is none."""
    filled = {"mode": "sync", "layers": "", "batch": 4, "steps": 1, "devices": "cpu = 2"}
    source = f'csv("a.csv", image = "p*", digit = "digit") {transforms} -> shuffle(8)'
    project.write(SPEC.format(source=source, **filled))
    assert waiting.remedy(project.load().data.train).startswith(begins)
