"""The layers that know more than their weights: words, statistics or boundaries."""

from __future__ import annotations

from collections.abc import Mapping

from dsl import ir
from dsl.schema import signatures

SPLITS = ("data.train", "data.validation", "data.test")
"""The values of `adapt`, which name the split that a layer learns from."""

STATES: Mapping[str, tuple[str, ...]] = {
    "Discretization": ("bin_boundaries",),
    "IntegerLookup": ("vocabulary", "idf_weights"),
    "Normalization": ("mean", "variance"),
    "StringLookup": ("vocabulary", "idf_weights"),
    "TextVectorization": ("vocabulary", "idf_weights"),
}
"""The arguments that give each of these layers what it would otherwise learn from data."""

ADAPTED_FROM: Mapping[str, tuple[str, ...]] = {
    name: ("num_bins",) if name == "Discretization" else () for name in STATES
}
"""The arguments of each layer that are of no use once it has learnt."""


def named_arguments(call: ir.Call) -> dict[str, ir.Value]:
    """Return all arguments of a layer by name."""
    signature = signatures.find("layer", call.name)
    names = [each.name for each in signature.positional] if signature is not None else []
    return dict(zip(names, call.args, strict=False)) | dict(call.kwargs)
