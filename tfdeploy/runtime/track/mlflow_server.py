"""The tracker `mlflow`: a run of an experiment on a server of MLflow, or in its files."""

from __future__ import annotations

import math
import os
import re
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dsl.files.regular import read_regular
from tfdeploy.runtime.records.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfdeploy.runtime.records.history import HistoryRecord
    from tfdeploy.runtime.track.tracker import TrackedRun

LONGEST = 500
"""The most characters of a parameter, which all versions of MLflow take."""
MOST = 100
"""The most parameters that MLflow takes at once."""
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""What MLflow reads from the environment: what fails is tried again here, so that it is known why."""

STATES = {"finished": "FINISHED", "interrupted": "KILLED", "terminated": "KILLED"}
_STRANGE = re.compile(r"[^\w./ -]")


class MLflow:
    """A run on a server of MLflow.

    Args:
        server: The address of the server; None for that of MLFLOW_TRACKING_URI.
        experiment: The name of the experiment; None for the title of the run.
        model: Whether the model is sent.
    """

    def __init__(
        self, server: str | None = None, experiment: str | None = None, *, model: bool = True
    ) -> None:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        self._entities: Any = import_module("mlflow.entities")
        self._client: Any = import_module("mlflow").MlflowClient(tracking_uri=server)
        self._experiment, self._model, self._run = experiment, model, ""

    def begin(self, run: TrackedRun, known: str | None) -> str:
        """Make the experiment and the run, unless they are there, and send the settings."""
        client, name = self._client, self._experiment or run.title
        if known is None:
            found = client.get_experiment_by_name(name)
            number = found.experiment_id if found is not None else client.create_experiment(name)
            known = client.create_run(number, run_name=run.directory.name).info.run_id
        else:
            client.update_run(known, status="RUNNING")
        self._run = str(known)
        kept = set(client.get_run(self._run).data.params)
        params = [
            self._entities.Param(_key(path), text[:LONGEST])
            for path, text in run.settings.items()
            if _key(path) not in kept  # MLflow does not let a parameter change
        ]
        for at in range(0, len(params), MOST):
            client.log_batch(self._run, params=params[at : at + MOST])
        return self._run

    def log(self, records: Sequence[HistoryRecord]) -> None:
        """Send the scores, under the names of their splits."""
        metrics = [
            self._entities.Metric(
                _key(f"{record.split}/{name}"), value, _milliseconds(record.time), record.step
            )
            for record in records
            for name, value in record.figures().items()
            if math.isfinite(value)
        ]
        for at in range(0, len(metrics), 1000):
            self._client.log_batch(self._run, metrics=metrics[at : at + 1000])

    def end(self, run: TrackedRun) -> None:
        """Send the spec as it ran, the placement map, the result and the model, and close the run."""
        files = run.files
        wanted = [files.spec, files.placement, files.result, *([files.model] if self._model else [])]
        for each in wanted:
            if each.exists():
                self._client.log_artifact(self._run, str(each))
        result = Result.read(read_regular(files.result)) if files.result.exists() else None
        self._client.set_terminated(self._run, STATES[result.status] if result is not None else "FAILED")


def _key(name: str) -> str:
    """Return a name as MLflow takes it."""
    return _STRANGE.sub("_", name)


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
