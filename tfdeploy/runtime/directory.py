"""The run directory: where each of its files is, and clearing it for a run that starts again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from tfdeploy.runtime.files import remove_partial
from tfdeploy.runtime.store import Store

if TYPE_CHECKING:
    from dsl import ir

RUNS = Path("runs")


@frozen
class RunDirectory:
    """`train.directory`, relative to where the command runs; `runs/NAME` where NAME.tfdeploy has none."""

    path: Path

    @classmethod
    def of(cls, spec: ir.Spec) -> RunDirectory:
        """Return the directory of a spec, which need not be there."""
        if spec.train.directory is not None:
            return cls(Path(spec.train.directory))
        return cls(RUNS / (Path(spec.path).stem or "spec"))

    @property
    def spec(self) -> Path:
        """The spec as it ran."""
        return self.path / "spec.tfdeploy"

    @property
    def placement(self) -> Path:
        """The placement map."""
        return self.path / "placement.json"

    @property
    def history(self) -> Path:
        """A line per logged step and evaluation."""
        return self.path / "history.jsonl"

    @property
    def store(self) -> Store:
        """The checkpoints."""
        return Store(self.path / "checkpoints")

    @property
    def events(self) -> Path:
        """TensorBoard's files."""
        return self.path / "events"

    @property
    def profile(self) -> Path:
        """Profiles of steps, where they were asked for."""
        return self.path / "profile"

    @property
    def cluster(self) -> Path:
        """Where the tasks are that were started for the run, as long as they run."""
        return self.path / "cluster.json"

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.path / "model.keras"

    @property
    def result(self) -> Path:
        """What the run came to."""
        return self.path / "result.json"

    def make(self, spec: ir.Spec) -> None:
        """Make the directory where it is not there. Raises RunError where that cannot be."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            span = spec.train.span_of("directory")
            reason = (fault.strerror or str(fault)).lower()
            raise RunError(errors.directory_unusable(str(self.path), reason, span)) from fault

    def clear(self) -> None:
        """Remove what an earlier run has left, and nothing else."""
        for path in (self.result, self.model, self.history, self.placement, self.spec):
            path.unlink(missing_ok=True)
        self.store.best.unlink(missing_ok=True)
        for step in self.store.steps():
            self.store.remove(step)
        shutil.rmtree(self.events, ignore_errors=True)

    def tidy(self) -> None:
        """Remove what is half written, and the result of an earlier run that is now to be taken further."""
        remove_partial(self.path)
        self.result.unlink(missing_ok=True)
