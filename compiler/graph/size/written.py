"""Ops that are going to be written, and the bytes that they take in a GraphDef at least."""

from __future__ import annotations

from attrs import frozen

OP_BYTES = 26
"""What a node has beside its name, its device and its inputs. `Identity` has the least: the lengths of itself
(3 bytes), of its name (2) and of its device (2), its type with a length (10) and the type of its elements,
an attribute with a name (9)."""

INPUT_BYTES = 2
"""What an input has beside its name: its number as a field, and its length."""

SHORTEST = 4
"""The letters of the shortest name inside a scope, which is `copy`."""


@frozen
class Written:
    """Ops in one scope.

    Attributes:
        ops: Their number.
        inputs: The number of their inputs that are tensors of the same scope.
    """

    ops: int = 0
    inputs: int = 0

    def __add__(self, other: Written) -> Written:
        """Return both together."""
        return Written(self.ops + other.ops, self.inputs + other.inputs)

    def times(self, number: int) -> Written:
        """Return as much as this for each of a number of things."""
        return Written(self.ops * number, self.inputs * number)

    def bytes_in(self, scope: str, device: int) -> int:
        """Return the bytes that the ops take at least.

        Args:
            scope: The scope of their names, with its last slash.
            device: The length of the name of their device.
        """
        name = len(scope) + SHORTEST
        return self.ops * (OP_BYTES + name + device) + self.inputs * (INPUT_BYTES + name)
