"""Checks of a spec against its devices, with one file for each subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from compiler import topology
from compiler.checks.compatibility import choices_are_compatible
from compiler.checks.data_files import data_is_there
from compiler.checks.devices import (
    batches_fit_clones,
    groups_fit_devices,
    link_is_used,
    targets_name_devices,
    workers_are_whole,
    workers_can_change,
)
from compiler.checks.pieces import optimizers_take_pieces, pieces_have_an_axis
from compiler.checks.rules import globs_can_match, updates_place_sums
from compiler.checks.shapes import arguments_can_be_taken, model_has_a_loss, shapes_fit, tensors_can_be_held
from dsl import ir
from dsl.diagnostics import Diagnostic
from grammar import Reading

Check = Callable[[ir.Spec, topology.Topology], Iterable[Diagnostic]]

CHECKS_OF_THE_SPEC: tuple[Check, ...] = (
    choices_are_compatible,
    workers_can_change,
    targets_name_devices,
    groups_fit_devices,
    batches_fit_clones,
    tensors_can_be_held,
    pieces_have_an_axis,
    optimizers_take_pieces,
    workers_are_whole,
    link_is_used,
    updates_place_sums,
)
"""The checks that need neither this machine nor a graph, which `check` makes."""

CHECKS: tuple[Check, ...] = (model_has_a_loss, *CHECKS_OF_THE_SPEC)


def diagnose(reading: Reading) -> list[Diagnostic]:
    """Return all that `check` says of a spec: what reading it found, or else what `check_spec` says."""
    found = list(reading.diagnostics)
    if reading.spec is not None:
        found += check_spec(reading.spec)
    return found


def check_spec(spec: ir.Spec) -> list[Diagnostic]:
    """Return the errors in the plan of a spec that can be found from the spec alone, or else the warnings.

    If the spec declares no devices, checks that depend on devices are left out. Shapes are followed only
    through layers whose output is certain without Keras, and names only as far as those of layers. Data files
    must exist, and the headers of CSV files are read.
    """
    declared = spec.devices.jobs or spec.devices.gpu is not None or spec.devices.cpu is not None
    devices = topology.declare(spec.devices, 0)
    strange: list[Diagnostic] = []
    checks = CHECKS_OF_THE_SPEC if declared else (choices_are_compatible,)
    for check in (*checks, globs_can_match, arguments_can_be_taken):
        found = list(check(spec, devices))
        if any(each.is_error for each in found):
            return found
        strange += found
    return [*strange, *shapes_fit(spec), *data_is_there(spec)]
