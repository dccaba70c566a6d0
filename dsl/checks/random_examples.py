"""A check that examples are changed at random in training only, and anew in every pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors.meaning import examples
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
                yield examples.random_in_evaluation(call.name, split.name, call.span)
            elif caches and at < caches[-1]:
                yield examples.random_before_cache(call.name, call.span, split.transforms[caches[-1]].span)
