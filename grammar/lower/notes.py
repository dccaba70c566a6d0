"""What lowering finds in a spec beside what its blocks become."""

from __future__ import annotations

from attrs import field, frozen

from dsl import ir


@frozen
class Notes:
    """What lowering has found in the whole spec.

    Attributes:
        constants: The names of the constants that are used.
        layers: The names of the `layer` blocks that are used.
        patterns: All patterns of devices.
        inputs: The inputs of the model.
        splits: The splits of the data.
        unknown: The names that are not defined.
        incomplete: The `layer` blocks whose parameters are not all known.
        doubtful: The names that may have been meant by something with an error; `layer` means any layer, and
            `let` any constant.
    """

    constants: set[str] = field(factory=set)
    layers: set[str] = field(factory=set)
    patterns: list[ir.DevicePattern] = field(factory=list)
    inputs: list[ir.Binding] = field(factory=list)
    splits: list[ir.Split] = field(factory=list)
    unknown: set[str] = field(factory=set)
    incomplete: set[str] = field(factory=set)
    doubtful: set[str] = field(factory=set)
