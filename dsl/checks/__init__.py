"""Checks of a spec that need no devices, one in each file.

To add a check, write a file with a function from `Facts` to diagnostics, and add the function to one of the
two tuples below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dsl.checks.addresses import addresses
from dsl.checks.averaging import averaging
from dsl.checks.best_score import best_score
from dsl.checks.data_tensors import data_tensors
from dsl.checks.declared import few_devices
from dsl.checks.device_indices import device_indices
from dsl.checks.facts import Facts
from dsl.checks.hosts import hosts
from dsl.checks.labels import labels
from dsl.checks.layer_names import layer_names
from dsl.checks.layer_state import layer_state
from dsl.checks.lints.clone_shares import clone_shares
from dsl.checks.lints.ineffective_rules import ineffective_rules
from dsl.checks.lints.unused_bindings import unused_bindings
from dsl.checks.lints.unused_constants import unused_constants
from dsl.checks.lints.unused_devices import unused_devices
from dsl.checks.lints.unused_layers import unused_layers
from dsl.checks.mixed_examples import mixed_examples
from dsl.checks.optimizer_groups import optimizer_groups
from dsl.checks.random_examples import random_examples
from dsl.checks.single_places import single_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsl.diagnostics import Diagnostic

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
