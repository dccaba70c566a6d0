"""Runs that wait for their data are told so, and others are not."""

import json
from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.config import disable_op_determinism
from tensorflow.python.ops.script_ops import _py_funcs

from compiler.graph import ledger
from compiler.graph.nodes import import_nodes
from tests.runtime.conftest import Project
from tests.runtime.train.test_exports import events_of
from tfdeploy import api
from tfdeploy.runtime.records.result import Result
from tfdeploy.runtime.show.reporting import Reporter, summary_rows
from tfdeploy.runtime.train import loop

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

SOURCES = {
    "python": 'python("mine:examples")',
    "synthetic": "synthetic(64, image = feature(float32, [256]), digit = feature(int32, [], 10)) -> cache()",
}
EXAMPLES = """
import numpy as np


def examples():
    while True:
        yield {"image": np.ones(256, np.float32), "digit": np.int32(3)}
"""


class FalseClock:
    """A clock that goes on by `waiting` seconds whenever a batch is given, and by `working` in each step."""

    def __init__(self, waiting: float, working: float) -> None:
        self.now, self.waiting, self.working = 0.0, waiting, working
        self.begun, self.beginning = False, 0.0  # whether a step goes on, and when the last one began
        self.lock = Lock()

    def put_into(self, graph: tf.Graph, nodes: Any) -> None:
        """Add nodes to a graph, in which ops that tell the time are by this clock.

        A batch is asked for when a step begins.
        """
        for node in nodes.node:
            if node.op == "Timestamp":
                asked = node.name.rpartition("/")[2].startswith("asked")
                tell = (lambda: np.float64(self.beginning)) if asked else (lambda: self.after(self.waiting))
                node.op = "PyFunc"
                node.attr["token"].s = _py_funcs.insert(tell).encode()
                node.attr["Tin"].list.SetInParent()
                node.attr["Tout"].list.type.append(tf.float64.as_datatype_enum)
                graph._told = [*getattr(graph, "_told", []), tell]  # which TensorFlow does not keep alive
        import_nodes(graph, nodes)

    def perf_counter(self) -> float:
        """Tell the time to the loop, which asks at the beginning and at the end of a step."""
        if self.begun:
            self.begun = False
            return float(self.after(self.working))
        self.begun = True
        self.beginning = float(self.after(0.0))
        return self.beginning

    def after(self, seconds: float) -> np.float64:
        """Go on, and tell the time."""
        with self.lock:
            self.now += seconds
            return np.float64(self.now)


class Heard(Reporter):
    """Keeps what is said about waiting."""

    def __init__(self) -> None:
        self.said: list[tuple[float, str]] = []

    def waiting(self, share: float, remedy: str) -> None:
        """Keep it."""
        self.said.append((share, remedy))


@pytest.fixture
def train(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Result, Heard]]:
    """Return a function that trains for 40 steps by a false clock, and returns what was heard as well."""

    def trained(clock: FalseClock, source: str, **settings: Any) -> tuple[Result, Heard]:
        disable_op_determinism()  # or steps may not ask for the time
        monkeypatch.setattr(ledger, "import_nodes", clock.put_into)
        monkeypatch.setattr(loop, "time", clock)
        filled = {"mode": "sync", "layers": "", "batch": 4, "steps": 40, "devices": "cpu = 2", **settings}
        project.write(SPEC.format(source=SOURCES[source], **filled))
        (project.folder / "mine.py").write_text(EXAMPLES)
        overrides = {"train.directory": str(project.run_directory)}
        heard = Heard()
        spec = api.load(project.spec, overrides, allow_python=True)
        return api.run(spec, emulate=True, reporter=heard), heard

    return trained


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    ("mode", "devices"),
    [
        ("sync", "cpu = 2"),
        ("async", "gpu = 2"),
        pytest.param("async", "cpu = 2", marks=pytest.mark.full),
        pytest.param("sync", "gpu = 2", marks=pytest.mark.full),
    ],
)
def test_a_slow_source_is_waited_for(project: Project, train: Any, mode: str, devices: str) -> None:
    """Nearly all of the time goes in waiting: said once, with what helps, and kept in all results.

    Where batches are asked for ahead, or by clones in turn, some of their waits fall between two steps, on a
    busy machine so many that the steps themselves come to less than the time before which nothing is said.
    """
    result, heard = train(FalseClock(waiting=0.95, working=0.05), "python", mode=mode, devices=devices)
    exact = (mode, devices) == ("sync", "cpu = 2")
    least = 0.95 if exact else loop.MUCH
    assert least * result.seconds.train <= result.seconds.data_waiting + 1e-6
    assert result.seconds.data_waiting <= result.seconds.train
    assert not exact or result.seconds.train == pytest.approx(39)
    if not exact and result.seconds.train < loop.TELLING:
        assert not heard.said
        return
    ((share, remedy),) = heard.said
    assert share >= least - 1e-6
    assert remedy.startswith("the source `python` yields examples one by one")
    written = json.loads((project.run_directory / "result.json").read_text())["seconds"]["data_waiting"]
    assert written == pytest.approx(result.seconds.data_waiting, abs=1e-3)
    shares = {line["step"]: line["data_waiting"] for line in project.history() if "data_waiting" in line}
    assert shares.keys() == {*range(5, 41, 5)}
    assert min(shares.values()) >= (least - 1e-3 if exact else 0.01)
    events = events_of(project.run_directory / "events" / "train")
    drawn = {
        event.step: value.simple_value
        for event in events
        for value in event.summary.value
        if value.tag == "data_waiting"
    }
    assert drawn == pytest.approx(shares, abs=1e-4)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("devices", ["cpu = 2", "gpu = 2"])
def test_a_quick_source_is_not(train: Any, devices: str) -> None:
    """If the steps are what takes long, nothing is said, and little time is counted."""
    result, heard = train(FalseClock(waiting=0.2, working=0.8), "synthetic", devices=devices)
    assert heard.said == []
    assert result.seconds.train == pytest.approx(39)
    assert result.seconds.data_waiting == pytest.approx(0.2 * 39, abs=0.2 * 39 if "gpu" in devices else 1e-6)


def test_nothing_is_said_of_the_first_seconds(train: Any) -> None:
    """It is told once training has taken TELLING seconds, here after five steps."""
    result, heard = train(FalseClock(waiting=0.95, working=0.05), "python", steps=5)
    assert (result.seconds.train, heard.said) == (pytest.approx(4), [])
    assert result.seconds.train < loop.TELLING


@pytest.mark.full
def test_the_real_clock_goes(project: Project) -> None:
    """Without a false one some time is counted, and no more than the training took."""
    disable_op_determinism()
    result = project.run(train__steps=20, train__deterministic=False)
    assert 0 < result.seconds.data_waiting <= result.seconds.train


@pytest.mark.full
def test_with_deterministic_ops_it_is_not_known(project: Project) -> None:
    """TensorFlow does not tell the time then: nothing is claimed."""
    result = project.run(train__steps=20)
    assert result.seconds.data_waiting is None
    assert all("data_waiting" not in line for line in project.history())
    assert "data" not in dict(summary_rows(result))


@pytest.mark.parametrize(
    ("transforms", "begins"),
    [("", "if the examples fit into memory, `-> cache()`"), ("-> cache()", "steps with more work in them")],
)
def test_what_helps_depends_on_the_data(project: Project, transforms: str, begins: str) -> None:
    """A cache is advised where there is none."""
    filled = {"mode": "sync", "layers": "", "batch": 4, "steps": 1, "devices": "cpu = 2"}
    source = f'csv("a.csv", image = "p*", digit = "digit") {transforms} -> shuffle(8)'
    project.write(SPEC.format(source=source, **filled))
    assert loop.remedy(project.load().data.train).startswith(begins)
