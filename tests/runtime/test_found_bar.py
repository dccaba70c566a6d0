"""The progress bar on a terminal of 80 columns."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tfdeploy.runtime.console import Bar
from tfdeploy.runtime.history import Line
from tfdeploy.runtime.reporting import Stretch


def test_figures_are_whole_where_there_is_little_room() -> None:
    """The bar gives way to the step, the loss, the metrics and the speed."""
    file = StringIO()
    bar = Bar(Console(file=file, width=80, force_terminal=True, color_system=None, markup=False))
    bar.started(Stretch(0, 21940, "runs/digits"))
    bar.logged(Line(5050, "train", 0.0767, 0.0767, {"accuracy": 0.96875}, 70429.0))
    bar.ended()
    last = next(each for each in reversed(file.getvalue().splitlines()) if "loss" in each)
    assert "step  5,050/21,940 " in last
    assert " loss 0.0767  accuracy 0.9688  70,429 examples/s " in last
