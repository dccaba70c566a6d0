"""A check that examples are changed at random in training only, and anew in every pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import tensors
from dsl.schema.data_functions import RANDOM_TRANSFORMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.checks.facts import Facts
    from dsl.diagnostics import Diagnostic


def random_examples(facts: Facts) -> Iterator[Diagnostic]:
    """Report random transforms in `validation` and `test`, and those before a `cache` in `train`."""
    for split in facts.splits:
        caches = [at for at, call in enumerate(split.transforms) if call.name == "cache"]
        for at, call in enumerate(split.transforms):
            if call.name not in RANDOM_TRANSFORMS:
                continue
            if split.name != "train":
                yield tensors.random_in_evaluation(
                    call.span, transform=call.name, split=split.name, crops=call.name == "random_crop"
                )
            elif caches and at < caches[-1]:
                yield tensors.random_before_cache(
                    call.span, transform=call.name, cache=split.transforms[caches[-1]].span
                )
