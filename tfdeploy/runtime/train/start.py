"""Starts a run. What needs no TensorFlow is checked first, and signals are handled from the beginning."""

from __future__ import annotations

from dsl import ir
from tfdeploy.runtime.plans import RunOptions, require_trainable
from tfdeploy.runtime.records.result import Result
from tfdeploy.runtime.start_tensorflow import start_tensorflow
from tfdeploy.runtime.stop import StopSignals


def run(spec: ir.Spec, options: RunOptions) -> Result:
    """Train a spec in its run directory.

    Raises:
        SpecError: If the spec cannot be trained as it is.
        RunError: If the run cannot continue.
        Interrupted: If SIGINT has ended the run. If training had begun, `result.json` is written.
        Terminated: If SIGTERM has ended the run, in the same way.
    """
    require_trainable(spec)
    with StopSignals(own_process=options.own_process) as stop:
        with options.reporter.busy("starting TensorFlow", plain=False):
            start_tensorflow(verbose=options.verbose)
        from tfdeploy.runtime.train.run import run_spec

        return stop.run(lambda: run_spec(spec, options, stop))
