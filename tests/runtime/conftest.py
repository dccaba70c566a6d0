"""What tests of runs need: a spec over the digits in this process or another, and the tasks of a cluster."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dsl.diagnostics import Diagnostic
from tests import forked
from tests.folders import ROOT
from tests.runtime.tasks import Tasks
from tfdeploy.runtime.show.reporting import Reporter

DIGITS = ROOT / "examples" / "data" / "digits"

SPEC = f"""
tfdeploy = 1

model "small" {{
  image = input(float32, [64])
  digit = input(int32, [])
  logits = image
    -> Dense(16, activation = relu, name = "hidden")
    -> Dropout(0.1)
    -> Dense(10, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  regularize = L2(1e-4)
  metrics {{
    accuracy = [digit, logits] -> SparseCategoricalAccuracy()
  }}
}}

data {{
  train = csv("{DIGITS / "train.csv"}", image = "pixel_*", digit = "digit")
    -> scale(image, 1 / 16)
    -> shuffle(256)
  test = csv("{DIGITS / "test.csv"}", image = "pixel_*", digit = "digit")
    -> scale(image, 1 / 16)
}}

devices {{
  cpu = 4
}}

clones {{
  count = 2
  batch = 16
}}

update {{
  optimizer = Adam(learning_rate = 1e-2)
  ema = 0.9
}}

train {{
  steps = 60
  seed = 11
  deterministic = true
}}
"""


class Listener(Reporter):
    """Keeps the warnings and notes of a run."""

    def __init__(self) -> None:
        self.warnings: list[Diagnostic] = []
        self.notes: list[str] = []

    def warn(self, diagnostic: Diagnostic) -> None:
        """Keep a warning."""
        self.warnings.append(diagnostic)

    def note(self, text: str) -> None:
        """Keep a note."""
        self.notes.append(text)


class Project:
    """A folder with a spec in it; the run directory is `run` beside the spec."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "small.tfdeploy"
        self.run_directory = folder / "run"
        self.write(SPEC)

    def write(self, text: str) -> None:
        """Replace the spec."""
        self.spec.write_text(text)

    def load(self, **overrides: Any) -> Any:
        """Load the spec; `train__steps=5` sets `train.steps`."""
        from tfdeploy import api

        pairs = {"train.directory": str(self.run_directory)}
        return api.load(self.spec, pairs | {key.replace("__", "."): each for key, each in overrides.items()})

    def run(self, **overrides: Any) -> Any:
        """Train the spec in this process and return its result; warnings are for a `reporter` alone."""
        from tfdeploy import api
        from tfdeploy.runtime.show.reporting import Reporter

        options = {key: overrides.pop(key) for key in ("resume", "emulate", "reporter") if key in overrides}
        return api.run(self.load(**overrides), **{"reporter": Reporter(), **options})

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Train the spec in a process of its own, which is forked unless `preexec_fn` is given."""
        command = [sys.executable, "-m", "tfdeploy", "compile-and-run", str(self.spec), *arguments]
        command += ["--set", f"train.directory={self.run_directory}"]
        start = subprocess.Popen if "preexec_fn" in more else forked.Popen
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return start(command, cwd=ROOT, text=True, **{**pipes, **more})

    def history(self) -> list[dict[str, Any]]:
        """Return the lines of the history; each must be readable."""
        text = (self.run_directory / "history.jsonl").read_text()
        assert text.endswith("\n")
        return [json.loads(line) for line in text.splitlines()]

    def steps(self, split: str = "train") -> list[int]:
        """Return the steps of a split's lines."""
        return [line["step"] for line in self.history() if line["split"] == split]

    def variables(self, step: int) -> dict[str, Any]:
        """Return the values in the checkpoint of `step`."""
        import tensorflow as tf

        reader = tf.train.load_checkpoint(str(self.run_directory / "checkpoints" / f"model.ckpt-{step}"))
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a folder with the spec of a small classifier of digits."""
    return Project(tmp_path)


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[str], Project]:
    """Return a function that makes further folders like that of `project`."""

    def make(name: str) -> Project:
        folder = tmp_path / name
        folder.mkdir()
        return Project(folder)

    return make


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Tasks]:
    """Return a folder with the spec of a small cluster; its processes end with the test."""
    with ExitStack() as stack:
        yield Tasks(tmp_path, stack)
