"""TensorBoard's files: `events/train`, `events/validation` and `events/test`, one run of TensorBoard each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.report.device_table import device_table
from compiler.report.terminal import headline
from compiler.report.view import View
from dsl.diagnostics import RunError
from tfdeploy.runtime.files import write_fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from compiler.placement_map import PlacementMap
    from tfdeploy.runtime.history import Line

v1 = tf.compat.v1
TEXT_WIDTH = 120
SCOPE = "summary/"  # where the graph makes its summaries


@define
class Events:
    """Writers by split, opened when they are first needed; nothing is written where `wanted` is false.

    `purge_from` is the first step that this process will make: of what an earlier one wrote, TensorBoard
    leaves out the steps from there on.
    """

    directory: Path
    graph: Any = field(repr=False)
    wanted: bool = True
    purge_from: int | None = None
    _writers: dict[str, Any] = field(factory=dict, repr=False)

    def line(self, line: Line, summary: bytes | None = None) -> None:
        """Write the scalars of a line of the history; `summary` is what the graph made in that step."""
        if not self.wanted:
            return
        writer = self._writer(line.split)
        if summary is not None:
            self._histograms(writer, summary, line.step)
        scalars = {"loss": line.loss, "data_loss": line.data_loss, **line.metrics}
        if line.learning_rate is not None:
            scalars["learning_rate"] = line.learning_rate
        if line.examples_per_second is not None:
            scalars["examples_per_second"] = line.examples_per_second
        if line.data_waiting is not None:
            scalars["data_waiting"] = line.data_waiting
        self._scalars(writer, scalars, line.step)

    def _scalars(self, writer: Any, scalars: Mapping[str, float], step: int) -> None:
        values = [v1.Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        writer.add_summary(v1.Summary(value=values), step)

    def _histograms(self, writer: Any, summary: bytes, step: int) -> None:
        """Write what is no scalar of a summary that the graph made; its scalars are those of the line."""
        found = v1.Summary.FromString(summary)
        kept = [each for each in found.value if each.WhichOneof("value") != "simple_value"]
        for each in kept:
            each.tag = each.tag.removeprefix(SCOPE)
        if kept:
            writer.add_summary(v1.Summary(value=kept), step)

    def draw_graph(self) -> None:
        """Write the graph with the devices of its ops."""
        if self.wanted:
            self._writer("train").add_graph(self.graph)

    def show_placement(self, placement: PlacementMap, step: int) -> None:
        """Write the totals of the placement map as text."""
        if not self.wanted:
            return
        lines = [*headline(placement), "", *device_table(placement, View(width=TEXT_WIDTH))]
        text = "\n".join(["```", *lines, "```"])
        value = v1.Summary.Value(tag="placement", tensor=tf.make_tensor_proto([text]))
        value.metadata.plugin_data.plugin_name = "text"
        self._writer("train").add_summary(v1.Summary(value=[value]), step)

    def flush(self) -> None:
        """Bring everything to the files."""
        for writer in self._writers.values():
            try:
                writer.flush()
            except (OSError, tf.errors.OpError) as fault:
                reason = fault if isinstance(fault, OSError) else OSError(fault.message)
                raise RunError(write_fault(self.directory, reason)) from fault

    def close(self) -> None:
        """Bring everything to the files and close them."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, split: str) -> Any:
        if split not in self._writers:
            with self.graph.as_default():
                writer = v1.summary.FileWriter(str(self.directory / split))
            if self.purge_from is not None:
                writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), self.purge_from)
            self._writers[split] = writer
        return self._writers[split]
