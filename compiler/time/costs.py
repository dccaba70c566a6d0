"""What the ops, the threads and the links of a step cost, by a profile of the machine or by a table.

The time of an op whose signature is in the profile is what was measured. Otherwise it is estimated from ops
of the same type in other sizes (`compiler/time/scale.py`). Plain arithmetic, element by element, goes through
memory equally fast whatever it computes, so an op of that kind that is larger than all of its type is
compared with all of the kind. If there is none of its type, it is what its work takes at the rates of the
core, by the roofline model of Williams, Waterman and Patterson (2009): an op takes as long as its arithmetic
or its memory takes, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import define, evolve, field, frozen

from compiler.figures import gathered
from compiler.time.profile import LinkCost, OpCost, Profile
from compiler.time.scale import LEAST, Scale, size_of
from compiler.time.work import Signature, StepWork, TimedOp
from compiler.topology import Device
from dsl import ir
from dsl.schema import hardware
from dsl.schema.hardware import Hardware

PLAIN = frozenset(
    (
        "Add",
        "AddN",
        "AddV2",
        "Maximum",
        "Minimum",
        "Mul",
        "Neg",
        "RealDiv",
        "Relu",
        "ReluGrad",
        "Square",
        "Sub",
    )
)
"""The types of ops that are plain arithmetic, element by element."""

_HALVES = ("float16", "bfloat16")


@frozen
class Cost:
    """What an op costs in one step, in seconds.

    Attributes:
        start: The time of starting its kernels, on a thread of its process.
        alone: Its time with one thread while nothing else runs.
        crowded: Its time with one thread while all other cores are busy.
        wide: Its time with a thread for each core while nothing else runs.
        estimated: Whether this op, in this size, was never measured.
        wide_cores: The cores that it uses with a thread for each core, if it takes no less time for that.
    """

    start: float
    alone: float
    crowded: float
    wide: float
    estimated: bool = False
    wide_cores: float = 1.0


@frozen
class Setting:
    """What is known of the devices of a step, besides their kinds.

    Attributes:
        one_process: Whether they are all devices of one process.
        emulated: Whether each is a logical CPU, even if the spec says GPU.
        link_speed: The bytes per second that the spec gives for links, or None.
    """

    one_process: bool = True
    emulated: bool = False
    link_speed: float | None = None

    def is_gpu(self, device: Device) -> bool:
        """Whether a device is a GPU."""
        return device.kind == "gpu" and not self.emulated


@frozen
class Link:
    """A link from one device to another.

    Attributes:
        latency: The seconds of an empty tensor.
        bytes_per_second: Its speed; None if tensors are handed over without a copy.
        message: The seconds for which a tensor takes the link, besides those of its bytes.
        processors: The cores that the bytes use meanwhile, those of both ends together.
        work: The seconds that processors need for a tensor besides its bytes, in all.
        asking: The seconds for which a thread of the receiver asks for a tensor, at the start of the step.
        giving: The seconds for which a thread of the sender hands it over.
    """

    latency: float
    bytes_per_second: float | None
    message: float = 0.0
    processors: float = 0.0
    work: float = 0.0
    asking: float = 0.0
    giving: float = 0.0

    def seconds(self, size: int) -> float:
        """Return how long the link is taken by a tensor of `size` bytes, without the latency."""
        return self.message + self._carrying(size)

    def cores(self, size: int) -> float:
        """Return the cores that both ends together use while the link is taken by a tensor."""
        taken = self.seconds(size)
        work = max(0.0, self.work - self.asking - self.giving)
        return (work + self.processors * self._carrying(size)) / taken if taken else 0.0

    @property
    def thread_cores(self) -> float:
        """The cores that a thread uses while it asks for a tensor or hands it over.

        A part of that it waits for others.
        """
        threads = self.asking + self.giving
        return min(1.0, self.work / threads) if threads else 1.0

    def _carrying(self, size: int) -> float:
        return size / self.bytes_per_second if self.bytes_per_second is not None else 0.0


class Costs(Protocol):
    """What a simulation asks about a machine."""

    @property
    def cores(self) -> int:
        """The cores of each machine."""

    @property
    def step_start(self) -> float:
        """The seconds of a step outside of its ops."""

    @property
    def start_cores(self) -> float:
        """The cores that are used meanwhile."""

    @property
    def op_start(self) -> float:
        """The seconds of starting an op."""

    @property
    def hand_over(self) -> float:
        """The seconds until a thread of the pool that has nothing to do takes an op."""

    @property
    def awake(self) -> float:
        """The cores that a process uses at least while it runs an op, if a thread for each core may."""

    @property
    def estimate(self) -> bool:
        """Whether figures are from the table of hardware, and not measured."""

    def of(self, op: TimedOp) -> Cost:
        """Return the cost of an op."""

    def link(self, source: Device, target: Device) -> Link:
        """Return the link from one device to another."""


@define
class ProfiledCosts:
    """Costs by a profile; GPUs, which a profile does not hold, by the table.

    Attributes:
        profile: The profile.
        setting: What is known of the devices.
        gpu: The kind of the GPUs, or None.
    """

    profile: Profile = field(repr=False)
    setting: Setting = Setting()
    gpu: Hardware | None = None
    _exact: Mapping[Signature, OpCost] = field(init=False, repr=False)
    _scales: Mapping[str, Scale] = field(init=False, repr=False)
    _plain: Scale | None = field(init=False, repr=False)
    _known: dict[Signature, Cost] = field(factory=dict, repr=False)
    _wide_cores: float = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._wide_cores = _wide_cores(self.profile)
        self._exact = {Signature(each.type, each.inputs, each.detail): each for each in self.profile.ops}
        by_type = gathered((each.type, each) for each in self.profile.ops)
        self._scales = {name: Scale.of(found) for name, found in by_type.items()}
        plain = [each for name in sorted(PLAIN & by_type.keys()) for each in by_type[name]]
        self._plain = Scale.of(plain) if plain else None

    @property
    def cores(self) -> int:
        """The cores of the machine that was measured."""
        return self.profile.machine.cores

    @property
    def step_start(self) -> float:
        """The seconds of a step outside of its ops."""
        if self.setting.one_process:
            return self.profile.step_start
        measured = self.profile.cluster_start
        return measured if measured is not None else hardware.CLUSTER_START

    @property
    def start_cores(self) -> float:
        """The cores that are used meanwhile."""
        return 1.0 if self.setting.one_process else self.profile.cluster_processors

    @property
    def op_start(self) -> float:
        """The seconds of starting an op."""
        return self.profile.op_start

    @property
    def hand_over(self) -> float:
        """The seconds until a thread that has nothing to do takes an op."""
        return self.profile.hand_over

    @property
    def awake(self) -> float:
        """The cores that a process uses at least while it runs an op, if a thread for each core may."""
        found = self.profile.tower_awake
        return self.profile.awake if found is None else found

    @property
    def estimate(self) -> bool:
        """Whether a part of the figures is from the table of hardware."""
        return self.gpu is not None

    def of(self, op: TimedOp) -> Cost:
        """Return the cost of an op."""
        if self.setting.is_gpu(op.device):
            assert self.gpu is not None  # `choose_costs` has seen to it
            return _by_table(op, self.gpu)
        found = self._known.get(op.signature)
        if found is None:
            found = evolve(self._look_up(op), wide_cores=self._wide_cores)
            self._known[op.signature] = found
        return _repeated(found, op.times)

    def _look_up(self, op: TimedOp) -> Cost:
        exact = self._exact.get(op.signature)
        if exact is not None:
            wide = exact.alone if exact.wide is None else exact.wide
            return Cost(exact.runs * self.op_start, exact.alone, exact.crowded, wide)
        roof = max(LEAST, op.flops / self.profile.flops_per_second, op.bytes / self.profile.bytes_per_second)
        scale = self._scale(op)
        if scale is not None:
            alone = scale.seconds(size_of(op.flops, op.bytes), roof)
            start = self.op_start * (scale.runs if op.signature.detail else max(scale.runs, 1.0))
            return Cost(start, alone, alone * scale.crowding, alone * scale.widening, estimated=True)
        return Cost(self.op_start, roof, roof, roof, estimated=True)

    def _scale(self, op: TimedOp) -> Scale | None:
        """Return the times with which an op in a size that was not measured is compared."""
        own, size = self._scales.get(op.signature.type), size_of(op.flops, op.bytes)
        if op.signature.type in PLAIN and (own is None or own.sizes[-1] < size):
            return self._plain or own
        return own

    def link(self, source: Device, target: Device) -> Link:
        """Return the link from one device to another."""
        if not self.setting.one_process and source.host != target.host:
            measured = self._link("network")
            speed = self.setting.link_speed or (
                measured.bytes_per_second if measured else hardware.NETWORK_SPEED
            )
            if measured is None:
                return Link(hardware.NETWORK_LATENCY, speed)
            work = measured.processors * measured.message if measured.work is None else measured.work
            return Link(
                measured.latency,
                speed,
                measured.message,
                measured.processors,
                work,
                measured.asking,
                measured.giving,
            )
        if self.gpu is not None and (self.setting.is_gpu(source) or self.setting.is_gpu(target)):
            return Link(self.gpu.latency, self.setting.link_speed or self.gpu.link)
        measured = self._link("process")
        return Link(measured.latency if measured else 0.0, None)

    def _link(self, kind: str) -> LinkCost | None:
        return next((each for each in self.profile.links if each.kind == kind), None)


@define
class TableCosts:
    """Costs by the table of hardware alone.

    Attributes:
        gpu: The kind of the GPUs, or None if there are none.
        cpu: The kind of the cores of CPUs.
        cores: The cores of each machine.
        setting: What is known of the devices.
        estimate: Always true, because no figure is measured.
    """

    gpu: Hardware | None
    cpu: Hardware
    cores: int
    setting: Setting = Setting()
    estimate: bool = field(default=True, init=False)
    _known: dict[tuple[object, ...], Cost] = field(factory=dict, init=False, repr=False)

    @property
    def step_start(self) -> float:
        """The seconds of a step outside of its ops."""
        return hardware.STEP_START if self.setting.one_process else hardware.CLUSTER_START

    @property
    def start_cores(self) -> float:
        """The cores that are used meanwhile."""
        return 1.0

    @property
    def op_start(self) -> float:
        """The seconds of starting an op."""
        return self.cpu.op_start

    @property
    def hand_over(self) -> float:
        """The seconds until a thread that has nothing to do takes an op."""
        return self.cpu.latency

    @property
    def awake(self) -> float:
        """The cores that a process uses besides those of its ops are not known."""
        return 0.0

    def of(self, op: TimedOp) -> Cost:
        """Return the cost of an op."""
        on_gpu = self.setting.is_gpu(op.device)
        key = (op.signature, on_gpu, op.flops, op.bytes, op.times)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._look_up(op, on_gpu=on_gpu)
        return found

    def _look_up(self, op: TimedOp, *, on_gpu: bool) -> Cost:
        if on_gpu:
            assert self.gpu is not None  # `choose_costs` has seen to it
            return _by_table(op, self.gpu)
        found = _by_table(op, self.cpu)
        return evolve(found, wide=max(found.alone / self.cores, LEAST))

    def link(self, source: Device, target: Device) -> Link:
        """Return the link from one device to another."""
        if not self.setting.one_process and source.host != target.host:
            return Link(hardware.NETWORK_LATENCY, self.setting.link_speed or hardware.NETWORK_SPEED)
        if self.gpu is not None and (self.setting.is_gpu(source) or self.setting.is_gpu(target)):
            return Link(self.gpu.latency, self.setting.link_speed or self.gpu.link)
        return Link(0.0, None)


def _by_table(op: TimedOp, kind: Hardware) -> Cost:
    half = any(each.startswith(_HALVES) for each in op.signature.inputs)
    peak = (kind.half_flops if half else kind.flops) * hardware.REACHED_FLOPS
    seconds = max(LEAST, op.flops / peak, op.bytes / (kind.memory * hardware.REACHED_BYTES))
    return _repeated(Cost(kind.op_start, seconds, seconds, seconds, estimated=True), op.times)


def _repeated(cost: Cost, times: int) -> Cost:
    if times == 1:
        return cost
    return evolve(
        cost,
        start=cost.start * times,
        alone=cost.alone * times,
        crowded=cost.crowded * times,
        wide=cost.wide * times,
    )


def _wide_cores(profile: Profile) -> float:
    """Return the cores that ops use, with a thread for each core, which take no less time for that.

    Some of them are cut into parts nevertheless. They use what remains of the mean that was measured, if the
    other ops use all cores.
    """
    times = [(each, each.ops * each.wide) for each in profile.ops if each.wide is not None]
    total = sum(seconds for _, seconds in times)
    narrow = sum(seconds for each, seconds in times if each.wide is not None and each.wide >= each.alone)
    if not narrow:
        return 1.0
    cores = profile.machine.cores
    return min(float(cores), max(1.0, (profile.awake * total - cores * (total - narrow)) / narrow))


def choose_costs(work: StepWork, devices: ir.Devices, profile: Profile | None, cores: int) -> Costs | None:
    """Return the costs of a step: by a profile, by the hardware that a spec names, or None without either.

    A profile holds ops of CPUs. Those of GPUs are estimated if the spec names their kind, and without that
    there is no forecast.

    Args:
        work: The step.
        devices: The block `devices` of the spec.
        profile: The profile of the machine, or None.
        cores: The cores of a machine if there is no profile.
    """
    named = hardware.TABLE[devices.kind] if devices.kind is not None else None
    gpu = named if named is not None and named.kind == "gpu" else None
    setting = Setting(work.one_process, work.emulated, devices.link)
    if gpu is None and any(work.on_gpu(each) for each in work.ops):
        return None
    if profile is not None:
        return ProfiledCosts(profile, setting, gpu if any(map(work.on_gpu, work.ops)) else None)
    if named is None:
        return None
    cpu = named if named.kind == "cpu" else hardware.TABLE["cpu"]
    return TableCosts(gpu, cpu, cores, setting)
