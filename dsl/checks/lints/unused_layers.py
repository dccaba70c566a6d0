"""A lint that every `layer` block is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import lint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def unused_layers(facts: Facts) -> Iterator[Diagnostic]:
    """Report `layer` blocks that nothing uses."""
    for layer in facts.layers or ():
        if layer.name not in facts.used_layers and layer.span is not None:
            yield lint.unused_layer(layer.span, name=layer.name)
