"""A step of a spec, held against the same step of the same model in plain Keras."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from compiler.graph.finished import Finished
from dsl import ir
from tests.support import Training


@frozen
class Step:
    """All variables before and after a step on the whole batch, its loss and metrics, and its graph."""

    compiled: Finished
    before: dict[str, Any]
    after: dict[str, Any]
    loss: float
    metrics: dict[str, Any]

    @property
    def weights(self) -> dict[str, Any]:
        """The weights of the model after the step."""
        return {name: self.after[name] for name in self.compiled.weights}


def step_of(spec: ir.Spec, arrays: Mapping[str, Any], **options: Any) -> Step:
    """Make a step; `options` are those of `Training`."""
    with Training(spec, arrays, **options) as training:
        before, compiled = training.values(), training.compiled
        metrics = {name: each.result for name, each in compiled.metrics.items()}
        loss, found, _ = training.session.run([compiled.total_loss, metrics, compiled.train_op])
        return Step(compiled, before, training.values(), float(loss), found)


def follow(
    step: Step,
    twin: Any,
    optimizer: Any,
    loss: Any,
    *batch: Any,
    variables: Mapping[str, Any] | None = None,
    fitted: Mapping[str, Any] | None = None,
    **compiled: Any,
) -> dict[str, float]:
    """Let Keras make the step with the weights from before it; loss and weights must be equal afterwards.

    Args:
        step: The step.
        twin: The same model in Keras.
        optimizer: Its optimizer.
        loss: Its loss, or one for each output.
        batch: Inputs, targets and, if there are any, weights of the examples.
        variables: Its variables by the names of the weights, which are their paths if nothing is given.
        fitted: More arguments of `train_on_batch`.
        compiled: More arguments of `compile`.

    Returns:
        The loss and the metrics of Keras.
    """
    own = {each.path: each for each in twin.weights} if variables is None else variables
    assert own.keys() == step.compiled.weights.keys()
    for name, variable in own.items():
        variable.assign(step.before[name])
    twin.compile(optimizer, loss, run_eagerly=True, **compiled)
    scores: dict[str, float] = twin.train_on_batch(*batch, return_dict=True, **(fitted or {}))
    assert step.loss == pytest.approx(float(scores["loss"]), rel=1e-5)
    for name, variable in own.items():
        np.testing.assert_allclose(step.after[name], variable.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    return scores
