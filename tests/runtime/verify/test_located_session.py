"""What TensorFlow refuses while a combination is verified is an error in the spec, or of a server."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.tower.traces import Traces
from dsl.diagnostics import RunError
from tests.support import spec_of
from tfdeploy.runtime.verify.trial import LocatedSession, Trial, TrialSetup

SPEC = """
tfdeploy = 1

model "small" {
  x = input(float32, [4])
  label = input(int32, [])
  y = x -> Dense(2, name = "logits")
  loss = [label, y] -> SparseCategoricalCrossentropy(from_logits = true)
}

devices { cpu = 1 }
clones { batch = 4 }
update { optimizer = SGD(0.1) }
"""

COMPILED: Any = SimpleNamespace(ledger=SimpleNamespace(entries={}))


def test_a_label_that_the_model_does_not_know_is_named_with_the_loss() -> None:
    """The op is one of the loss, to which the message points."""
    arrays = {"x": np.ones((4, 4), np.float32), "label": np.array([0, 1, 2, 3], np.int32)}
    with Trial(TrialSetup(Traces(), 1, arrays), spec_of(SPEC)) as trial:
        with pytest.raises(
            RunError, match="a combination failed, in clone 0: Received a label value"
        ) as caught:
            trial.step()
        found = caught.value.diagnostic
        assert found.code == "TFD738"
        assert found.span is not None
        assert found.span.source.text[found.span.start : found.span.end].startswith("[label, y] ->")


def test_the_error_of_a_server_that_was_lost_is_left_to_others() -> None:
    """Some errors mean that, others only if the tasks say so. In this process, no task can be lost."""

    def session(fault: type[tf.errors.OpError], lost: Callable[[], bool] | None = None) -> LocatedSession:
        def run(*_: Any) -> None:
            raise fault(None, None, "gone")

        return LocatedSession(SimpleNamespace(run=run), COMPILED, lost)

    for fault, lost in ((tf.errors.UnavailableError, False), (tf.errors.InternalError, True)):
        with pytest.raises(fault):
            session(fault, lambda lost=lost: lost).run("fetches")
    for there in (session(tf.errors.UnavailableError), session(tf.errors.InternalError, lambda: False)):
        with pytest.raises(RunError, match="a combination failed: gone"):
            there.run("fetches")
