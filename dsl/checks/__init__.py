"""Checks of a spec that need no devices, in a file for each subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from dsl.checks.devices import device_indices, few_devices, hosts, prometheus, single_places
from dsl.checks.lints import (
    clone_shares,
    ineffective_rules,
    unused_bindings,
    unused_constants,
    unused_devices,
    unused_layers,
)
from dsl.checks.model import (
    addresses,
    averaging,
    best_score,
    data_tensors,
    labels,
    layer_names,
    layer_state,
    mixed_examples,
    optimizer_groups,
    random_examples,
)
from dsl.diagnostics import Diagnostic
from dsl.ir.spec import Facts

Rule: TypeAlias = "Callable[[Facts], Iterator[Diagnostic]]"

CHECKS: tuple[Rule, ...] = (
    few_devices,
    hosts,
    device_indices,
    single_places,
    data_tensors,
    random_examples,
    mixed_examples,
    layer_names,
    layer_state,
    addresses,
    labels,
    averaging,
    optimizer_groups,
    best_score,
    prometheus,
)
"""What makes a spec wrong, in the order of the blocks that it is about."""

LINTS: tuple[Rule, ...] = (
    unused_constants,
    unused_bindings,
    unused_layers,
    unused_devices,
    clone_shares,
    ineffective_rules,
)
"""Checks of what is only strange, which are made if nothing is wrong."""

__all__ = ["CHECKS", "LINTS", "Facts", "Rule"]
