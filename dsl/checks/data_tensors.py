"""A check that every split has a tensor for each input of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import references
from dsl.examples import tensors_of_split
from dsl.suggest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def data_tensors(facts: Facts) -> Iterator[Diagnostic]:
    """Report each input that a split has no tensor for, unless the model or the split has other errors."""
    if facts.model is None or facts.data is None:
        return
    for split in facts.splits:
        known = tensors_of_split(split)
        at = split.source.name_span
        if known is None or at is None:
            continue
        for binding in facts.inputs:
            if binding.name not in known and binding.name_span is not None:
                near = nearest(binding.name, known)
                yield references.input_without_data(
                    at,
                    name=binding.name,
                    split=split.name,
                    reader=binding.name_span,
                    near=near,
                    known=sorted(known),
                )
