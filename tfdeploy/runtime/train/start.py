"""Where runs start: what needs no TensorFlow is checked first, signals are watched from the beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfdeploy.runtime.plans import require_trainable
from tfdeploy.runtime.start_tensorflow import start_tensorflow
from tfdeploy.runtime.stop import StopSignals

if TYPE_CHECKING:
    from dsl import ir
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.records.result import Result


def run(spec: ir.Spec, options: RunOptions) -> Result:
    """Train `spec` in its run directory and return what it came to.

    Raises SpecError, RunError, and Interrupted or Terminated if a signal has ended the run; `result.json`
    is written in the latter case too, if training had begun.
    """
    require_trainable(spec)
    with StopSignals(own_process=options.own_process) as stop:
        with options.reporter.busy("starting TensorFlow", plain=False):
            start_tensorflow(verbose=options.verbose)
        from tfdeploy.runtime.train.run import run_spec

        return run_spec(spec, options, stop)
