"""A model without random numbers. Every clone draws its own, so that no two layouts draw the same numbers.

Rates of dropout and noise become zero, and random changes of images are left out. The rest of a step can then
be compared with one tower on the whole batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve

from dsl import ir

if TYPE_CHECKING:
    from compiler.model.graph import ModelGraph

RATES = frozenset(
    (
        "Dropout",
        "SpatialDropout1D",
        "SpatialDropout2D",
        "SpatialDropout3D",
        "GaussianDropout",
        "AlphaDropout",
        "GaussianNoise",
    )
)
AUGMENTATIONS = ("AugMix", "RandAugment")
ARGUMENTS = ("dropout", "recurrent_dropout")


def without_randomness(model: ModelGraph) -> ModelGraph:
    """Return the model without the known layers that draw random numbers in training."""
    layers = (
        evolve(each, call=_call_without_randomness(each.call)) if each.kind == "layer" else each
        for each in model.layers
    )
    return evolve(model, layers=tuple(layers))


def _call_without_randomness(call: ir.Call) -> ir.Call:
    if call.name in RATES:
        return evolve(call, args=(0.0,), kwargs={})
    if call.name == "RandomCrop":
        sizes = {key: value for key, value in call.kwargs.items() if key != "seed"}
        return evolve(call, name="CenterCrop", kwargs=sizes)
    if call.name.startswith("Random") or call.name in AUGMENTATIONS:
        return ir.Call("Identity", span=call.span)
    kwargs = {
        key: 0.0 if key in ARGUMENTS else _value_without_randomness(value)
        for key, value in call.kwargs.items()
    }
    return evolve(call, args=tuple(_value_without_randomness(each) for each in call.args), kwargs=kwargs)


def _value_without_randomness(value: ir.Value) -> ir.Value:
    return _call_without_randomness(value) if isinstance(value, ir.Call) else value
