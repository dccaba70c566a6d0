"""What the tests of placement share: a rulebook, devices and towers from a few lines of a spec."""

from collections.abc import Sequence

from attrs import frozen

from compiler import topology
from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import place_variables
from compiler.plan import Tower, VariableInfo, VariablePlacement
from compiler.topology import Topology
from compiler.towers import lay_out_towers
from dsl import ir
from tests.specs import CLASSES
from tests.support import spec_of


@frozen
class Places:
    """The placement of a spec, to be asked for one thing at a time."""

    spec: ir.Spec
    topology: Topology
    book: Rulebook
    towers: tuple[Tower, ...]

    def variables(self, infos: Sequence[VariableInfo]) -> tuple[VariablePlacement, ...]:
        """Place variables."""
        return place_variables(self.book, infos, self.towers)

    def homes(self, infos: Sequence[VariableInfo]) -> list[str]:
        """Return the device of each variable, by its name in specs."""
        return [each.placed.device.ref for each in self.variables(infos)]


def places(text: str) -> Places:
    """Return the placement of a spec that has a small model and the blocks of `text`."""
    spec = spec_of(CLASSES + text)
    devices = topology.declare(spec.devices, 0)
    return Places(spec, devices, Rulebook(spec.place.rules, devices), lay_out_towers(spec, devices))


def variables(*sizes: int, slots: int = 0) -> list[VariableInfo]:
    """Return variables `v0`, `v1`, ... of so many bytes, each with `slots` slots of its size."""
    return [
        VariableInfo(f"v{at}", (size // 4,), "float32", size, slot_bytes=size * slots)
        for at, size in enumerate(sizes)
    ]
