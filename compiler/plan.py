"""The plan: everything that is decided before a TensorFlow graph exists."""

from __future__ import annotations

from attrs import Factory, field, frozen

from compiler.mapping.records import Recomputed
from compiler.model.graph import ModelGraph
from compiler.reasons import Placed, Reason
from compiler.shards import Shard
from compiler.topology import Device, Host, Topology
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.shown import Shown


@frozen
class Tower:
    """The part of a graph that belongs to one clone."""

    index: int  # its number among the towers of its graph
    scope: str  # the name scope of its ops; empty if the graph has only this tower
    devices: tuple[Device, ...]
    batch: int  # the examples of one micro-batch; a step takes `update.accumulate` of these
    reason: Reason = field(eq=False, repr=False)
    # Its number among the towers of the whole deployment.
    number: int = field(default=Factory(lambda self: self.index, takes_self=True))
    piped: int = 0  # how many micro-batches have ops of their own; 0 if there is no pipeline

    @property
    def device(self) -> Device:
        """The device of all ops of the tower that no rule places elsewhere."""
        return self.devices[0]

    def op_name(self, inner: str) -> str:
        """Return the name in the graph of the op that is named `inner` inside the tower."""
        return f"{self.scope}/{inner}" if self.scope else inner

    def of_batch(self, inner: str, number: int) -> str:
        """Return the name in the graph of the op that is named `inner`, of a micro-batch with its own ops."""
        return self.op_name(f"micro_{number}/{inner}")

    def inner_name(self, name: str) -> str:
        """Return the name of an op inside its tower, and inside its micro-batch, by that in the graph."""
        inner = name.removeprefix(f"{self.scope}/") if self.scope else name
        if self.piped:
            for number in range(self.piped):
                if inner.startswith(f"micro_{number}/"):
                    return inner.partition("/")[2]
        return inner


@frozen
class Worker:
    """A worker that has a graph of its own (`replication = between_graph`)."""

    index: int  # its number among the workers, in the order of declaration; worker 0 is the chief
    host: Host
    # The towers of all workers, one tuple for each worker.
    everyone: tuple[tuple[Tower, ...], ...] = field(repr=False)
    changes: bool = False  # whether workers come and go, so that these are some of the tasks of the job

    @property
    def is_chief(self) -> bool:
        """Whether this worker keeps the checkpoints, evaluates and writes the run directory."""
        return self.index == 0

    @property
    def count(self) -> int:
        """The number of workers."""
        return len(self.everyone)

    @property
    def slots(self) -> tuple[int, ...]:
        """The place of each worker in the tables that all workers share: its task's, if workers change."""
        if not self.changes:
            return tuple(range(self.count))
        return tuple(towers[0].device.task for towers in self.everyone)

    def task(self, index: int) -> str:
        """Return the task of worker number `index` as messages and options write it, such as `worker:1`."""
        job, task = self.everyone[index][0].device.host
        return f"{job}:{task}"


@frozen
class Plan(Shown):
    """A checked spec with its model flattened, its devices listed and its towers laid out."""

    spec: ir.Spec
    model: ModelGraph
    topology: Topology
    towers: tuple[Tower, ...]
    emulate: bool = False  # whether devices of this process stand for the devices of the spec
    warnings: tuple[Diagnostic, ...] = ()
    # Whether a step spends most of its time on updates of whole tables, as far as known: a plan that has not
    # been compiled does not know it.
    tables_dominate: bool = False
    # What towers compute again; None if nothing, or if the plan has not been compiled.
    recomputed: Recomputed | None = None

    @property
    def all_towers(self) -> tuple[Tower, ...]:
        """The towers of the whole deployment; with one graph, these are the towers of the plan."""
        return self.towers

    @property
    def global_batch(self) -> int:
        """The examples of one synchronous step, over all clones and micro-batches."""
        return self.micro_batches * sum(tower.batch for tower in self.all_towers)

    @property
    def own_batch(self) -> int:
        """The examples that all towers of this graph take in one step of each."""
        return self.micro_batches * sum(tower.batch for tower in self.towers)

    @property
    def step_batch(self) -> int:
        """The examples of one update of the weights; a worker that updates alone counts only its own."""
        return self.own_batch if self.update.mode == "async" else self.global_batch

    @property
    def micro_batches(self) -> int:
        """The micro-batches that each clone takes in one step."""
        return self.update.accumulate

    @property
    def loops(self) -> bool:
        """Whether each clone takes its micro-batches in a loop."""
        return self.micro_batches > 1 and self.update.schedule is None

    @property
    def clones_update_alone(self) -> bool:
        """Whether each clone applies its own gradient as soon as it has computed it."""
        return self.update.mode == "async"

    @property
    def concurrent_steps(self) -> int:
        """The number of steps that are counted while each clone trains on one batch."""
        return len(self.towers) if self.update.mode == "async" else 1

    def share(self, tower: Tower) -> float:
        """Return the part (0 to 1) of an update's batch that a clone takes."""
        return self.micro_batches * tower.batch / self.step_batch

    @property
    def update(self) -> ir.Update:
        """The block `update`, which says how gradients change weights."""
        return self.spec.update

    def is_abroad(self, device: Device) -> bool:  # noqa: ARG002 for workers
        """Whether a device is another worker's, if each worker has all weights."""
        return False

    def tensorflow_device(self, device: Device) -> str:
        """Return the name of a device in the session."""
        return device.emulated_name if self.emulate else device.tensorflow_name


@frozen
class WorkerPlan(Plan):
    """The plan of a worker that has a graph of its own; its `towers` are the towers of this worker."""

    worker: Worker = field(kw_only=True)

    @property
    def keeps_all(self) -> bool:
        """Whether each worker has all weights, so that the workers share no variables."""
        return self.topology.alone

    def is_abroad(self, device: Device) -> bool:
        """Whether a device is another worker's, if each worker has all weights."""
        return self.keeps_all and device.host != self.worker.host

    @property
    def all_towers(self) -> tuple[Tower, ...]:
        """The towers of all workers."""
        return tuple(tower for towers in self.worker.everyone for tower in towers)

    @property
    def clones_update_alone(self) -> bool:
        """False, because the clones of a worker update the weights together."""
        return False

    @property
    def concurrent_steps(self) -> int:
        """The number of steps that are counted while each clone trains on one batch."""
        return self.worker.count if self.update.mode == "async" else 1

    @property
    def twins(self) -> dict[str, str]:
        """Map each device of another worker to this worker's device of the same kind and index, by name."""
        devices = self.topology.devices
        own = {(each.kind, each.index): each.ref for each in devices if each.host == self.worker.host}
        others = {towers[0].device.host for towers in self.worker.everyone} - {self.worker.host}
        return {
            each.ref: own[each.kind, each.index]
            for each in devices
            if each.host in others and (each.kind, each.index) in own
        }

    def is_server(self, device: Device) -> bool:
        """Whether a device is of a task that only keeps variables."""
        return device.host not in {towers[0].device.host for towers in self.worker.everyone}

    def devices_for(self, host: Host) -> dict[Device, Device]:
        """Map this worker's devices to those of the same kind and index of another worker's task."""
        devices = self.topology.devices
        there = {(each.kind, each.index): each for each in devices if each.host == host}
        own = (each for each in devices if each.host == self.worker.host)
        return {each: there[each.kind, each.index] for each in own if (each.kind, each.index) in there}


@frozen
class VariableInfo:
    """What placement needs to know about a variable."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    trainable: bool = True
    slot_bytes: int = 0  # the size of all its slots together
    shard: Shard | None = None  # the piece of a variable that it is, or None for a whole variable

    @property
    def weight(self) -> str:
        """The name of the whole variable, by which rules, towers and files know it."""
        return self.name if self.shard is None else self.shard.of


@frozen
class OwnedPart:
    """A part of a replicated variable that one clone updates, with the slots of that part."""

    shard: Shard
    # The number of the clone in its graph, which is that of its copy of the variable; None if it is a clone
    # of another worker, whose copies are in another graph.
    copy: int | None
    device: Device


@frozen
class VariablePlacement:
    """The places of the parts of a variable."""

    info: VariableInfo
    placed: Placed  # the place of the variable, or of its first copy
    slots: Placed
    # The devices of all its copies, one for each clone, if the variable is replicated.
    copies: tuple[Device, ...] = ()
    # The place where its gradients are summed, or None if that is beside the variable.
    updates: Placed | None = None
    # If the rule names more devices than the variable has pieces, the reason in words, else None.
    fewer: str | None = None
    parts: tuple[OwnedPart, ...] = ()  # the parts that the clones update, if each has a part of the slots
    # Whether some of these clones are in graphs of other workers. Each worker says the same, also of a small
    # variable with a single part that is its own.
    of_workers: bool = False
