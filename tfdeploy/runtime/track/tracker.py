"""What a tracker is, and what it has got of a run: `track.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

from dsl.files.typed_json import Count, JsonRecord
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.found import settings_of

if TYPE_CHECKING:
    from tfdeploy.runtime.records.history import HistoryRecord


@frozen
class Tracked(JsonRecord):
    """What a tracker has got of a run; its process writes the record, and nobody else while that runs.

    Attributes:
        name: The function of the language that names the tracker: `mlflow` or `python`.
        arguments: Its arguments.
        folder: The folder in which the module of a Python function is searched first.
        title: What the run is called there by default: the name of its model.
        run: How the tracker itself names the run; None if it has not begun it.
        lines: The number of lines of the history that it has got.
        complete: Whether it has got everything, the files of the run's end too.
        fault: Why the last attempt to send something has failed; None if it has not.
    """

    name: str
    arguments: Mapping[str, Any]
    folder: str
    title: str
    run: str | None = None
    lines: Count = 0
    complete: bool = False
    fault: str | None = None


@frozen
class TrackedRun:
    """A run as a tracker sees it.

    Attributes:
        directory: The run directory.
        title: The name of the model.
    """

    directory: Path
    title: str

    @property
    def settings(self) -> dict[str, str]:
        """The values of its spec by the paths that `--set` takes."""
        return settings_of(self.files.spec)

    @property
    def files(self) -> RunDirectory:
        """The paths of its files."""
        return RunDirectory(self.directory)


class Tracker(Protocol):
    """Sends a run elsewhere. Whatever a method raises, it is called again later with the same."""

    def begin(self, run: TrackedRun, known: str | None) -> str:
        """Begin to track a run, or go on with it.

        Args:
            run: The run.
            known: What this method has returned for the run before; None for a new run.

        Returns:
            How the tracker names the run.
        """

    def log(self, records: Sequence[HistoryRecord]) -> None:
        """Take down lines of the history, at most some hundred at once."""

    def end(self, run: TrackedRun) -> None:
        """Take down the files and the outcome of a run that has ended."""
