"""TensorBoard's files: `events/train`, `events/validation` and `events/test`, one run of TensorBoard each.

They are written record by record, and not by TensorFlow's own writer, whose thread ends with an error message
of its own if the disk is full.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.report.text.device_table import device_table
from compiler.report.text.terminal import headline
from compiler.report.view import View
from dsl.formats.cells import printable
from tfdeploy.runtime.records.ownership import new_events_name
from tfdeploy.runtime.session.faults import refused
from tfdeploy.runtime.train.summaries_of_pieces import merged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from compiler.mapping.records import PlacementMap
    from tfdeploy.runtime.records.history import HistoryRecord
    from tfdeploy.runtime.records.lock import DirectoryGuard

v1 = tf.compat.v1
TEXT_WIDTH = 120
SCOPE = "summary/"  # where the graph makes its summaries
VERSION = "brain.Event:2"  # of the format


@define
class _Writer:
    """A file of events, which is made for the first event, and flushed after each.

    Methods raise RunError if the file cannot be written.
    """

    path: Path
    _file: Any = field(default=None, repr=False)

    def write(self, **event: Any) -> None:
        if self._file is not None and not self.path.exists():
            self.close()  # the file has been removed; later events are written to a new one
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = tf.io.TFRecordWriter(str(self.path))
                self._append(file_version=VERSION)
            self._append(**event)
        except (OSError, tf.errors.OpError) as fault:
            raise refused(self.path, fault) from fault

    def _append(self, **event: Any) -> None:
        self._file.write(v1.Event(wall_time=time.time(), **event).SerializeToString())
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


@define
class Events:
    """The event files of a run, each of which is opened when it is first needed.

    Attributes:
        directory: The folder with a folder of event files for each split.
        graph: The graph of the run.
        wanted: Whether anything is written.
        purge_from: The first step that this process will make. TensorBoard ignores what earlier processes
            have written about this step and later ones.
        guard: Checks before each event that the run directory still exists; None for no check.
    """

    directory: Path
    graph: Any = field(repr=False)
    wanted: bool = True
    purge_from: int | None = None
    guard: DirectoryGuard | None = None
    _writers: dict[str, _Writer] = field(factory=dict, repr=False)

    def write(self, record: HistoryRecord, summary: bytes | None = None) -> None:
        """Write the scalars of a record, and the serialised `summary` that the graph has made.

        Args:
            record: The scores of a step or of an evaluation.
            summary: The serialised summary that the graph has made, or None.
        """
        if not self.wanted:
            return
        writer = self._writer(record.split)
        figures = {
            "loss": record.loss,
            "data_loss": record.data_loss,
            **record.metrics,
            "learning_rate": record.learning_rate,
            **record.rates_of_groups(),
            "examples_per_second": record.examples_per_second,
            "data_waiting": record.data_waiting,
        }
        scalars = {name: value for name, value in figures.items() if value is not None}
        if summary is not None:
            self._rest(writer, summary, scalars, record.step)
        values = [v1.Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        writer.write(step=record.step, summary=v1.Summary(value=values))

    def _rest(self, writer: _Writer, summary: bytes, scalars: Mapping[str, float], step: int) -> None:
        """Write those values of a summary that are not among the scalars of the record."""
        found = v1.Summary.FromString(summary)
        for each in found.value:
            each.tag = each.tag.removeprefix(SCOPE)
        kept = [each for each in merged(found.value) if each.tag not in scalars]
        if kept:
            writer.write(step=step, summary=v1.Summary(value=kept))

    def draw_graph(self) -> None:
        """Write the graph with the devices of its ops."""
        if self.wanted:
            drawn = self.graph.as_graph_def(add_shapes=True)
            self._writer("train").write(graph_def=drawn.SerializeToString())

    def show_placement(self, placement: PlacementMap, step: int) -> None:
        """Write the totals of the placement map as text.

        Args:
            placement: The placement map of the run.
            step: The global step with which TensorBoard shows it.
        """
        if not self.wanted:
            return
        lines = [*headline(placement), "", *device_table(placement, View(width=TEXT_WIDTH))]
        text = printable("\n".join(["```", *lines, "```"]))
        value = v1.Summary.Value(tag="placement", tensor=tf.make_tensor_proto([text]))
        value.metadata.plugin_data.plugin_name = "text"
        self._writer("train").write(step=step, summary=v1.Summary(value=[value]))

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, split: str) -> _Writer:
        if self.guard is not None:
            self.guard.require()
        if split not in self._writers:
            self._writers[split] = writer = _Writer(self.directory / split / new_events_name())
            if self.purge_from is not None:
                started = v1.SessionLog(status=v1.SessionLog.START)
                writer.write(step=self.purge_from, session_log=started)
        return self._writers[split]
