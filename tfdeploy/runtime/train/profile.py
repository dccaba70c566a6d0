"""Profiles of a few steps, for TensorBoard's profiler and for Chrome's trace viewer.

Twice as many steps are profiled: the first half by TensorFlow's profiler, the second half with the times of
every op, from which a trace with a track for each device is made. The two kinds of profile exclude each
other.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import Timeline
from tfdeploy.runtime.records.files import write_atomically, writing

if TYPE_CHECKING:
    from pathlib import Path

    from tfdeploy.runtime.session.engine import Engine

TRACE = "trace.json"


@define
class Profile:
    """Profiles steps after the first one; `before` and `after` are to be called around each step.

    Attributes:
        engine: The session.
        directory: The folder for the profiles.
        steps: How many steps are profiled for each of the two kinds of profile.
    """

    engine: Engine = field(repr=False)
    directory: Path
    steps: int
    _made: int = 0
    _profiling: bool = False
    _events: list[dict[str, Any]] = field(factory=list, repr=False)

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

    def _stop(self) -> None:
        if self._profiling:
            tf.profiler.experimental.stop()
            self._profiling = False

    def _take(self, metadata: Any) -> None:
        text = Timeline(metadata.step_stats).generate_chrome_trace_format(show_memory=False)
        self._events += json.loads(text)["traceEvents"]
