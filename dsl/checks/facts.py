"""The parts of a spec that the checks use. Parts with errors are left out, and the rest is checked."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from dsl import ir
from dsl.source import Span


@frozen
class Facts:
    """The parts of a spec that could be read. A block that is not in the spec is its record of defaults.

    Attributes:
        where: The start of the spec.
        model: The `model` block, or None if it has errors; the same holds for the other blocks.
        layers: The `layer` blocks.
        data: The `data` block.
        devices: The `devices` block.
        clones: The `clones` block.
        place: The `place` block.
        update: The `update` block.
        train: The `train` block.
        expect: The `expect` block.
        patterns: All patterns of devices in the spec.
        inputs: The inputs of the model.
        splits: The splits of `data`.
        constants: The names of the constants in `let`, each with its place.
        used: The names of the constants that are used.
        used_layers: The names of the `layer` blocks that are used.
    """

    where: Span
    model: ir.Model | None = None
    layers: tuple[ir.LayerBlock, ...] | None = ()
    data: ir.Data | None = None
    devices: ir.Devices | None = field(factory=ir.Devices)
    clones: ir.Clones | None = field(factory=ir.Clones)
    place: ir.Place | None = field(factory=ir.Place)
    update: ir.Update | None = field(factory=ir.Update)
    train: ir.Train | None = field(factory=ir.Train)
    expect: ir.Expect | None = field(factory=ir.Expect)
    patterns: tuple[ir.DevicePattern, ...] = ()
    inputs: tuple[ir.Binding, ...] = ()
    splits: tuple[ir.Split, ...] = ()
    constants: Mapping[str, Span] = field(factory=dict)
    used: frozenset[str] = frozenset()
    used_layers: frozenset[str] = frozenset()
