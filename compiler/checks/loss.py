"""Check that a model that is compiled has a loss, because towers have a forward and a backward pass."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.topology import Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import names


def model_has_a_loss(spec: ir.Spec, topology: Topology) -> Iterator[Diagnostic]:
    """Report a model without a loss.

    Args:
        spec: The spec, as read and checked without devices.
        topology: Not used; every check of this folder takes the devices.
    """
    del topology
    if not spec.model.has_loss and spec.model.span is not None:
        doc = (
            "a loss compares a target with a prediction: `loss = [target, prediction] -> MeanSquaredError()`"
        )
        yield names.missing_attribute(spec.model.span, name="loss", place="`model`", doc=doc)
