"""TensorBoard's files: `events/train`, `events/validation` and `events/test`, and profiles of a few steps.

Events are written record by record, and not by TensorFlow's own writer, whose thread ends with an error
message of its own if the disk is full.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.figures import size
from compiler.graph.adapters.tensorflow_private import Timeline
from compiler.mapping.records import PlacementMap
from compiler.report.terminal import device_table, headline
from compiler.report.view import View
from compiler.step.read.held import held_by_device
from dsl.formats.cells import printable
from tfdeploy.runtime.records.files import write_atomically, writing
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.lock import DirectoryGuard, new_events_name
from tfdeploy.runtime.session.engine import Engine, peak_of_tensors
from tfdeploy.runtime.session.faults import refused

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
    """The event files of a run, each of which is opened when it is first needed."""

    directory: Path  # the folder with a folder of event files for each split
    graph: Any = field(repr=False)
    wanted: bool = True
    # The first step that this process will make. TensorBoard ignores what earlier processes have written
    # about this step and later ones.
    purge_from: int | None = None
    # Checks before each event that the run directory still exists; None for no check.
    guard: DirectoryGuard | None = None
    _writers: dict[str, _Writer] = field(factory=dict, repr=False)

    def write(self, record: HistoryRecord, summary: bytes | None = None) -> None:
        """Write the scalars of a record, and the serialised `summary` that the graph has made."""
        if not self.wanted:
            return
        writer = self._writer(record.split)
        scalars = record.figures()
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
        """Write the totals of the placement map as text."""
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


# Summaries of variables in pieces: one histogram and one norm for each variable.
#
# The graph makes a histogram of each piece, beside no other, so that no task ever has the whole. Limits of
# buckets are the same for all histograms of TensorFlow. So counts add up to those of the whole, exactly.

_PIECE = re.compile(r"/shard_\d+(?=/|$)")
_NORM = "/gradient_norm"


def merged(values: Iterable[Any]) -> list[Any]:
    """Return the values of a summary with those of pieces as one, under the name of the variable.

    Args:
        values: Each a `Summary.Value`. Those of pieces have a part `shard_0`, `shard_1`, ... in their tags.
    """
    found: dict[str, list[Any]] = {}
    for each in values:
        of_piece = each.HasField("histo") or each.tag.endswith(_NORM)
        found.setdefault(_PIECE.sub("", each.tag) if of_piece else each.tag, []).append(each)
    return [_joined(tag, pieces) for tag, pieces in found.items()]


def _joined(tag: str, pieces: Sequence[Any]) -> Any:
    first = pieces[0]
    if first.tag == tag:
        return first
    if first.HasField("histo"):
        return tf.compat.v1.Summary.Value(tag=tag, histo=_histogram([each.histo for each in pieces]))
    norm = math.hypot(*(each.simple_value for each in pieces))
    return tf.compat.v1.Summary.Value(tag=tag, simple_value=norm)


def _histogram(pieces: Sequence[Any]) -> Any:
    """Return the histogram of all elements.

    A bucket begins at the limit before its own. TensorFlow leaves out limits between empty buckets only, so
    that the limit before a bucket with elements is always there.
    """
    counts: dict[float, float] = {}
    for each in pieces:
        for limit, count in zip(each.bucket_limit, each.bucket, strict=True):
            counts[limit] = counts.get(limit, 0.0) + count
    limits = sorted(counts)
    return tf.compat.v1.HistogramProto(
        min=min(each.min for each in pieces),
        max=max(each.max for each in pieces),
        num=sum(each.num for each in pieces),
        sum=math.fsum(each.sum for each in pieces),
        sum_squares=math.fsum(each.sum_squares for each in pieces),
        bucket_limit=limits,
        bucket=[counts[each] for each in limits],
    )


# Profiles of a few steps, for TensorBoard's profiler and for Chrome's trace viewer.
#
# Twice as many steps are profiled: the first half by TensorFlow's profiler, the second half with the times
# of every op, from which a trace with a track for each device is made. The two kinds of profile exclude
# each other.

TRACE = "trace.json"


@define
class Profile:
    """Profiles steps after the first one; `before` and `after` are to be called around each step."""

    engine: Engine = field(repr=False)
    directory: Path
    steps: int  # how many steps are profiled for each of the two kinds of profile
    # Called with a line about the memory that steps of the second kind have taken.
    say: Callable[[str], None] = field(repr=False)
    _made: int = 0
    _profiling: bool = False
    _events: list[dict[str, Any]] = field(factory=list, repr=False)
    _peaks: dict[str, int] = field(factory=dict, repr=False)

    def before(self) -> None:
        """Start or change the profiler, if that is due before the next step."""
        if self._made == 0:
            with writing(self.directory):
                self.directory.mkdir(exist_ok=True)
            tf.profiler.experimental.start(str(self.directory))
            self._profiling = True
        elif self._made == self.steps:
            self._stop()
            self.engine.on_run_metadata = self._take

    def after(self) -> bool:
        """Count a step, and return whether it was the last one and the profiles are written."""
        self._made += 1
        if self._made < 2 * self.steps:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Write the profiles of the steps so far."""
        self.engine.on_run_metadata = None
        self._stop()
        if self._events:
            write_atomically(self.directory / TRACE, json.dumps({"traceEvents": self._events}))
            self._events.clear()
            self.say(f"memory of a profiled step: {', '.join(self._memory())}")

    def _memory(self) -> Iterator[str]:
        """Yield what devices have held at most: variables, and what the allocator has counted besides."""
        compiled = self.engine.compiled
        held = held_by_device(compiled.step)
        for each in compiled.plan.topology.devices:
            peak = self._peaks.get(compiled.plan.tensorflow_device(each))
            if peak is not None:
                yield f"{size(sum(held[each.ref].values()) + peak)} on {each.ref}"

    def _stop(self) -> None:
        if self._profiling:
            tf.profiler.experimental.stop()
            self._profiling = False

    def _take(self, metadata: Any) -> None:
        text = Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=False)
        self._events += json.loads(text)["traceEvents"]
        for each in metadata.step_stats.dev_stats:
            peak = peak_of_tensors(each.node_stats)
            self._peaks[each.device] = max(peak, self._peaks.get(each.device, 0))
