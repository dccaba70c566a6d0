"""The plan: everything that is decided before a TensorFlow graph exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, field, frozen

from compiler.reasons import Placed, Why
from compiler.topology import Device, Host, Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.records import Record

if TYPE_CHECKING:
    from compiler.model.graph import ModelGraph


@frozen(eq=False, repr=False)
class Tower(Record):
    """One clone: its name scope (empty for the only one), its device or group of devices, its batch.

    Of a batch it takes one in a step, or as many as `update.accumulate` says. `index` counts the towers of
    one graph, `number` those of the whole deployment.
    """

    index: int
    scope: str
    devices: tuple[Device, ...]
    batch: int
    why: Why = field(eq=False, repr=False)
    number: int = field(default=Factory(lambda self: self.index, takes_self=True))

    @property
    def device(self) -> Device:
        """Where the ops of the tower go that no rule sends elsewhere."""
        return self.devices[0]

    def op_name(self, inner: str) -> str:
        """Return the name in the whole graph of the op that is called `inner` inside the tower."""
        return f"{self.scope}/{inner}" if self.scope else inner


@frozen(eq=False, repr=False)
class Worker(Record):
    """A worker with a graph of its own: its number, its task, and the towers of all workers, by worker."""

    index: int
    host: Host
    everyone: tuple[tuple[Tower, ...], ...] = field(repr=False)

    @property
    def is_chief(self) -> bool:
        """Whether it is the one that keeps checkpoints, evaluates and writes the run directory."""
        return self.index == 0

    @property
    def count(self) -> int:
        """How many workers there are."""
        return len(self.everyone)

    def task(self, index: int) -> str:
        """Return the task of worker number `index`, as messages and options have it: `worker:1`."""
        job, task = self.everyone[index][0].device.host
        return f"{job}:{task}"


@frozen(eq=False, repr=False)
class Plan(Record):
    """A checked spec with its model flattened, its devices listed and its towers laid out.

    `towers` are those of one graph: all there are, or a worker's own under `replication = between_graph`,
    whose plan has a `worker`. `warnings` are what checks found that makes no spec wrong.
    """

    spec: ir.Spec
    model: ModelGraph
    topology: Topology
    towers: tuple[Tower, ...]
    emulate: bool = False
    worker: Worker | None = None
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def all_towers(self) -> tuple[Tower, ...]:
        """The towers of all graphs."""
        if self.worker is None:
            return self.towers
        return tuple(tower for towers in self.worker.everyone for tower in towers)

    @property
    def twins(self) -> dict[str, str]:
        """By the name of each device of another worker: the device of this plan's with its kind and index."""
        if self.worker is None:
            return {}
        devices = self.topology.devices
        own = {(each.kind, each.index): each.ref for each in devices if each.host == self.worker.host}
        others = {towers[0].device.host for towers in self.worker.everyone} - {self.worker.host}
        return {
            each.ref: own[each.kind, each.index]
            for each in devices
            if each.host in others and (each.kind, each.index) in own
        }

    @property
    def global_batch(self) -> int:
        """Examples that one synchronous step takes, over all clones and micro-batches."""
        return self.rounds * sum(tower.batch for tower in self.all_towers)

    @property
    def own_batch(self) -> int:
        """Examples that the towers of this graph take in a step of each."""
        return self.rounds * sum(tower.batch for tower in self.towers)

    @property
    def step_batch(self) -> int:
        """Examples of one update of the weights: a worker that updates by itself counts its own alone."""
        return self.own_batch if self.update.mode == "async" else self.global_batch

    @property
    def rounds(self) -> int:
        """Micro-batches that each clone takes in one step."""
        return self.update.accumulate

    @property
    def clones_update_alone(self) -> bool:
        """Whether every clone applies its own gradient when it has it."""
        return self.update.mode == "async" and self.worker is None

    @property
    def updates_of_a_round(self) -> int:
        """How many steps are counted while all clones take one batch each."""
        if self.update.mode != "async":
            return 1
        return len(self.towers) if self.worker is None else self.worker.count

    @property
    def updates_meet(self) -> bool:
        """Whether several updates of one variable may be under way at once."""
        return self.update.mode == "async"

    def share(self, tower: Tower) -> float:
        """Return the part of the batch of an update that is a clone's."""
        return self.rounds * tower.batch / self.step_batch

    @property
    def update(self) -> ir.Update:
        """How gradients become weights."""
        return self.spec.update

    def tensorflow_device(self, device: Device) -> str:
        """Return the name under which the session knows `device`."""
        return device.emulated_name if self.emulate else device.tensorflow_name


@frozen(eq=False, repr=False)
class VariableInfo(Record):
    """What placement needs to know of a variable; `slot_bytes` are those of all its slots."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    trainable: bool = True
    slot_bytes: int = 0


@frozen(eq=False, repr=False)
class VariablePlacement(Record):
    """Where a variable lives, its slots, and the sum of its gradients (None: with it).

    `copies` are the devices of all its copies, one per clone, where it is replicated.
    """

    info: VariableInfo
    placed: Placed
    slots: Placed
    copies: tuple[Device, ...] = ()
    updates: Placed | None = None
