"""The plan: everything that is decided before a TensorFlow graph exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import field, frozen

from compiler.topology import Device, Topology
from dsl import ir

if TYPE_CHECKING:
    from compiler.model_graph import ModelGraph

Reason = Literal["rule", "default", "follows"]


@frozen
class Why:
    """What put something on its device: a rule of the spec, a default, or a thing that it follows.

    `text` is the rule as it stands in the spec (or would stand, for a default), or the name of what is
    followed: a variable's, or an op's inside its tower. `cause` is the reason of what is followed, and `rule`
    the rule that decided in the end; `beaten` are the rules that matched as well and came earlier.
    """

    text: str
    reason: Reason
    rule: ir.Rule | None = field(default=None, repr=False)
    beaten: tuple[ir.Rule, ...] = field(default=(), repr=False)
    cause: Why | None = field(default=None, repr=False)

    @property
    def root(self) -> Why:
        """The rule or default at the end of the chain of things that follow each other."""
        return self if self.cause is None else self.cause.root


@frozen
class Placed:
    """A device, and why."""

    device: Device
    why: Why


@frozen
class Tower:
    """One clone: its name scope (empty for the only one), its device or group of devices, its batch.

    Of a batch it takes one in a step, or as many as `update.accumulate` says.
    """

    index: int
    scope: str
    devices: tuple[Device, ...]
    batch: int
    why: Why = field(eq=False, repr=False)

    @property
    def device(self) -> Device:
        """Where the ops of the tower go that no rule sends elsewhere."""
        return self.devices[0]

    def op_name(self, inner: str) -> str:
        """Return the name in the whole graph of the op that is called `inner` inside the tower."""
        return f"{self.scope}/{inner}" if self.scope else inner


@frozen
class Plan:
    """A checked spec with its model flattened, its devices listed and its towers laid out."""

    spec: ir.Spec
    model: ModelGraph
    topology: Topology
    towers: tuple[Tower, ...]
    emulate: bool = False

    @property
    def global_batch(self) -> int:
        """Examples that one synchronous step takes, over all clones and micro-batches."""
        return self.rounds * sum(tower.batch for tower in self.towers)

    @property
    def rounds(self) -> int:
        """Micro-batches that each clone takes in one step."""
        return self.update.accumulate

    def share(self, tower: Tower) -> float:
        """Return the part of the global batch that is a clone's."""
        return self.rounds * tower.batch / self.global_batch

    @property
    def update(self) -> ir.Update:
        """How gradients become weights."""
        return self.spec.update

    def tensorflow_device(self, device: Device) -> str:
        """Return the name under which the session knows `device`."""
        return device.emulated_name if self.emulate else device.tensorflow_name


@frozen
class VariableInfo:
    """What placement needs to know of a variable; `slot_bytes` are those of all its slots."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    trainable: bool = True
    slot_bytes: int = 0


@frozen
class VariablePlacement:
    """Where a variable lives, its slots, and the sum of its gradients (None: with it).

    `copies` are the devices of all its copies, one per clone, where it is replicated.
    """

    info: VariableInfo
    placed: Placed
    slots: Placed
    copies: tuple[Device, ...] = ()
    updates: Placed | None = None
