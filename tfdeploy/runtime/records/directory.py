"""The run directory: the paths of its files, whether it may be used, and how it is cleared."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from attrs import frozen

from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.atomic import remove_partial
from dsl.files.regular import is_text
from dsl.ir import SPLITS
from dsl.source import Span
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.records.lock import (
    MARKER,
    MARKER_TEXT,
    foreign_names,
    is_events_file,
    is_marked,
    unusable,
    usable,
)
from tfdeploy.runtime.records.store import Store

RUNS = Path("runs")


class _Inside:
    """The path of a file or folder in a run directory."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, directory: RunDirectory, _: object) -> Path:
        return directory.path / self._name


@frozen
class RunDirectory:
    """The directory `train.directory` of a spec, or `runs/NAME` if NAME.tfdeploy gives none."""

    path: Path  # the directory, relative to the working directory of the process
    spec = _Inside("spec.tfdeploy")
    """The spec as it ran."""
    placement = _Inside("placement.json")
    """The placement map."""
    history = _Inside("history.jsonl")
    """The history: a line for each logged step and each evaluation."""
    events = _Inside("events")
    """The folder of TensorBoard's files."""
    profile = _Inside("profile")
    """The folder of the profiles of steps, if there are any."""
    logs = _Inside("logs")
    """The folder with what each task that was started for the run has written."""
    cluster = _Inside("cluster.json")
    """The addresses of the tasks that were started for the run, while they run."""
    scale = _Inside("scale.json")
    """How many tasks a job is to have, while the launcher has not changed it yet."""
    model = _Inside("model.keras")
    """The trained model."""
    layer_states = _Inside("layer_states.json")
    """What layers have learnt from the data before training, if there are such layers."""
    result = _Inside("result.json")
    """The outcome of the run."""
    track = _Inside("track.json")
    """What a tracker has got of the run so far."""
    mark = _Inside(MARKER)
    """The file by which the directory is recognised as a run's."""

    @classmethod
    def of(cls, spec: ir.Spec) -> RunDirectory:
        """Return the directory of a spec, which need not exist."""
        if spec.train.directory is not None:
            return cls(Path(spec.train.directory))
        return cls(RUNS / (Path(spec.path).stem or "spec"))

    @property
    def store(self) -> Store:
        """The folder of the checkpoints."""
        return Store(self.path / "checkpoints")

    def make(self, spec: ir.Spec) -> None:
        """Make the directory if it does not exist, and mark it as a run's.

        Raises:
            RunError: If it cannot be made, contains the spec, or contains files of others.
        """
        span = spec.train.span_of("directory")
        if not is_text(str(self.path)):
            raise unusable(self.path, span, "its name is not UTF-8")
        with usable(self.path, span):
            self.path.mkdir(parents=True, exist_ok=True)
            is_own = is_marked(self.path)
            self._require_apart(spec, span, is_own=is_own)
            others = [] if is_own else foreign_names(self.path)
            if others:
                raise RunError(errors.foreign_directory(span, directory=str(self.path), names=others))
        self._require_no_links(span)
        if not is_marked(self.path):
            write_atomically(self.mark, MARKER_TEXT)

    def _require_apart(self, spec: ir.Spec, span: Span | None, *, is_own: bool) -> None:
        """Raise RunError if the directory contains the spec, unless a run has written the spec there."""
        if is_own and self.holds_as_its_own(spec):
            return
        if self.path.resolve() in Path(spec.path).resolve().parents:
            raise RunError(errors.directory_holds_spec(span, directory=str(self.path), spec=spec.path))

    def holds_as_its_own(self, spec: ir.Spec) -> bool:
        """Whether `spec` is the file in which runs keep the spec as it ran."""
        return Path(spec.path).resolve() == self.path.resolve() / self.spec.name

    def _require_no_links(self, span: Span | None) -> None:
        """Raise RunError if a folder in it is a symbolic link, because its target may belong to others."""
        splits = (self.events / name for name in SPLITS)
        for path in (self.store.directory, self.profile, self.logs, self.events, *splits):
            if path.is_symlink():
                raise unusable(self.path, span, f"`{path.relative_to(self.path)}` in it is a symbolic link")

    def clear(self, spec: ir.Spec) -> None:
        """Remove the files of earlier runs, and nothing else. `spec`, which is about to run, is kept."""
        for path in (self.result, self.model, self.history, self.placement, self.track):
            path.unlink(missing_ok=True)
        if not self.holds_as_its_own(spec):
            self.spec.unlink(missing_ok=True)
        self.store.clear()
        for split in SPLITS:
            for path in (self.events / split).glob("*"):
                if is_events_file(path.name):
                    path.unlink(missing_ok=True)
            with suppress(OSError):  # it contains a file of others
                (self.events / split).rmdir()
        with suppress(OSError):
            self.events.rmdir()

    def tidy(self) -> None:
        """Remove incomplete files, and the result of an earlier run that is continued now."""
        names = {path.name for path in self._whole_files}
        remove_partial(self.path, lambda name: name in names)
        self.result.unlink(missing_ok=True)

    @property
    def _whole_files(self) -> tuple[Path, ...]:
        return (
            self.spec, self.placement, self.history, self.cluster, self.scale, self.model, self.layer_states,
            self.result, self.track, self.mark,
        )  # fmt: skip
