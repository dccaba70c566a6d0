"""A model without its random numbers."""

from __future__ import annotations

import pytest

from compiler.model.graph import LayerNode, ModelGraph
from dsl import ir
from tfdeploy.runtime.verify.examples import without_randomness

DROPOUT = ir.Call("Dropout", (0.5,))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ir.Call("Dense", (3,), {"activation": "relu"}), ir.Call("Dense", (3,), {"activation": "relu"})),
        (ir.Call("Dropout", (0.5,), {"seed": 3}), ir.Call("Dropout", (0.0,))),
        (ir.Call("GaussianNoise", (), {"stddev": 0.5}), ir.Call("GaussianNoise", (0.0,))),
        (
            ir.Call("RandomCrop", (8, 9), {"seed": 3, "data_format": "channels_last"}),
            ir.Call("CenterCrop", (8, 9), {"data_format": "channels_last"}),
        ),
        (ir.Call("RandomFlip", ("horizontal",)), ir.Call("Identity")),
        (ir.Call("RandAugment", ((0, 1),)), ir.Call("Identity")),
        (
            ir.Call("LSTM", (4,), {"dropout": 0.5, "recurrent_dropout": 0.25, "unroll": True}),
            ir.Call("LSTM", (4,), {"dropout": 0.0, "recurrent_dropout": 0.0, "unroll": True}),
        ),
        (
            ir.Call("Wrapped", (DROPOUT,), {"by": DROPOUT}),
            ir.Call("Wrapped", (ir.Call("Dropout", (0.0,)),), {"by": ir.Call("Dropout", (0.0,))}),
        ),
    ],
    ids=lambda call: call.name,
)
def test_layers_draw_no_numbers(call: ir.Call, expected: ir.Call) -> None:
    """Rates are zero, random images stay as they are, crops are in the middle, and all else is as it was."""
    nodes = LayerNode("one", "layer", call), LayerNode("two", "operation", call)
    model = ModelGraph("small", (), nodes, (), (), (), ())
    layer, operation = without_randomness(model).layers
    assert layer.call == expected
    assert operation.call == call
