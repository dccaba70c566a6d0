"""A check that no layer mixes the images of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import tensors
from dsl.ir.walk import steps_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic

MIXING = ("MixUp", "CutMix")


def mixed_examples(facts: Facts) -> Iterator[Diagnostic]:
    """Report each layer that mixes images with other images of their batch."""
    models = () if facts.model is None else (facts.model,)
    for block in (*models, *(facts.layers or ())):
        for binding in block.bindings:
            for step in steps_in(binding.value):
                if step.call.name.rpartition(".")[2] in MIXING:
                    yield tensors.mixing_layer(step.call.name_span or step.call.span, layer=step.call.name)
