"""What TensorFlow refuses while a combination is verified is an error in the spec, or of a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.tower.traces import Traces
from dsl.diagnostics import RunError
from tests.support import spec_of
from tfdeploy.runtime.verify.located_session import LocatedSession
from tfdeploy.runtime.verify.trial import Trial, TrialSetup

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


def test_the_error_of_a_server_that_may_be_lost_is_left_to_others() -> None:
    """Only at a server: in this process, no task can be lost."""

    class Session:
        """A session that cannot run anything."""

        def run(self, *_: Any) -> None:
            """Fail as if a connection had broken."""
            raise tf.errors.UnavailableError(None, None, "gone")

    with pytest.raises(tf.errors.UnavailableError):
        LocatedSession(Session(), COMPILED, launched=True).run("fetches")
    with pytest.raises(RunError, match="a combination failed: gone"):
        LocatedSession(Session(), COMPILED).run("fetches")
