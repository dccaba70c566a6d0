"""What is known of a plan beyond its placement map, as far as the page shows it."""

from __future__ import annotations

from attrs import field, frozen

from compiler.model.graph import ModelGraph
from compiler.time.forecast import StepForecast
from compiler.time.measured_trace import RunTrace
from compiler.time.work import StepWork


@frozen
class Details:
    """What is known of a plan beyond its map; a map that was read from a file has nothing of it.

    Attributes:
        model: The model as a graph of layers, which the page draws.
        work: The ops of a step with the bytes and floating point operations of each.
        time: The forecast of the step, whose timeline is shown.
        trace: The trace of a run, which is shown beneath the timeline.
    """

    model: ModelGraph | None = field(default=None, repr=False)
    work: StepWork | None = field(default=None, repr=False)
    time: StepForecast | None = field(default=None, repr=False)
    trace: RunTrace | None = field(default=None, repr=False)
