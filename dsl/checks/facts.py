"""What the checks know of a spec. A part with errors is left out, and the rest is checked all the same."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from dsl import ir
from dsl.source import Span


@frozen
class Facts:
    """The parts of a spec that could be read.

    A block that is not in the spec is its record of defaults, one with errors None. `patterns` are all names
    of devices, `inputs` the model's inputs, `splits` those of `data`. `constants` are the names of `let` with
    where they stand, `used` those that something uses, `used_layers` the `layer` blocks that something uses.
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
