"""The record of a whole spec."""

from __future__ import annotations

from attrs import field, frozen

from dsl.ir.base import Node
from dsl.ir.data import Data
from dsl.ir.model import LayerBlock, Model
from dsl.ir.place import Clones, Devices, Expect, Place
from dsl.ir.training import Train, Update
from dsl.shown import Shown


@frozen
class Spec(Shown, Node):
    """A whole spec.

    Attributes:
        model: The `model` block.
        version: The version of the language.
        layers: The `layer` blocks.
        data: The `data` block, or None.
        devices: The `devices` block.
        clones: The `clones` block.
        place: The `place` block.
        update: The `update` block.
        train: The `train` block.
        expect: The `expect` block.
        path: The file that the spec was read from.
        sha256: The SHA-256 of the file's bytes, in hexadecimal.
        includes: The files that it includes, also through others.
    """

    model: Model
    version: int = 1
    layers: tuple[LayerBlock, ...] = ()
    data: Data | None = None
    devices: Devices = field(factory=Devices)
    clones: Clones = field(factory=Clones)
    place: Place = field(factory=Place)
    update: Update = field(factory=Update)
    train: Train = field(factory=Train)
    expect: Expect = field(factory=Expect)
    path: str = field(default="", eq=False)
    sha256: str = field(default="", eq=False)
    includes: tuple[str, ...] = field(default=(), eq=False)
