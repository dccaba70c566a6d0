"""What the ops, the threads and the links of a step cost, by a profile of the machine or by a table.

The time of an op whose signature is in the profile is what was measured. Otherwise it is estimated from ops
of the same type in other sizes (`compiler/time/costs.py`). Plain arithmetic, element by element, goes through
memory equally fast whatever it computes, so an op of that kind that is larger than all of its type is
compared with all of the kind. If there is none of its type, it is what its work takes at the rates of the
core, by the roofline model of Williams, Waterman and Patterson (2009): an op takes as long as its arithmetic
or its memory takes, whichever is longer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping

from attrs import define, evolve, field, frozen

from compiler.figures import gathered
from compiler.time.profile import FoundProfile, LinkCost, OpCost, Profile
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
    """What an op costs in one step, in seconds."""

    start: float  # the time of starting its kernels, on a thread of its process
    alone: float  # its time with one thread while nothing else runs
    crowded: float  # its time with one thread while all other cores are busy
    wide: float  # its time with a thread for each core while nothing else runs
    estimated: bool = False  # whether this op, in this size, was never measured
    # The cores that it uses with a thread for each core, if it takes no less time for that.
    wide_cores: float = 1.0


@frozen
class Setting:
    """What is known of the devices of a step, besides their kinds."""

    one_process: bool = True  # whether they are all devices of one process
    emulated: bool = False  # whether each is a logical CPU, even if the spec says GPU
    link_speed: float | None = None  # the bytes per second that the spec gives for links, or None

    def is_gpu(self, device: Device) -> bool:
        """Whether a device is a GPU."""
        return device.kind == "gpu" and not self.emulated


@frozen(eq=False)
class Costs:
    """What a simulation asks about the machines of a step: by a profile, or by the table of hardware."""

    setting: Setting
    gpu: Hardware | None  # the kind of the GPUs, or None if there are none; a profile does not hold their ops
    cores: int
    step_start: float  # the seconds of a step outside of its ops
    start_cores: float  # the cores that are used meanwhile
    op_start: float  # the seconds of starting an op
    hand_over: float  # the seconds until a thread of the pool that has nothing to do takes an op
    awake: float  # the cores that a process uses at least while it runs an op, if a thread for each core may
    estimate: bool  # whether figures are from the table of hardware, and not measured
    near: LinkCost  # the link between CPU devices of a process
    network: LinkCost
    source: str = field(default="", kw_only=True)  # the file of the profile, or the name of the hardware
    _on_cpu: Callable[[TimedOp], Cost] = field(repr=False)
    _known: dict[tuple[object, ...], Cost] = field(factory=dict, init=False, repr=False)

    def of(self, op: TimedOp) -> Cost:
        """Return the cost of an op."""
        on_gpu = self.setting.is_gpu(op.device)
        key = (op.signature, on_gpu, op.flops, op.bytes, op.times)
        found = self._known.get(key)
        if found is None:
            assert self.gpu is not None or not on_gpu  # `choose_costs` has seen to it
            cost = _by_table(op, self.gpu) if self.gpu is not None and on_gpu else self._on_cpu(op)
            found = self._known[key] = cost
        return found

    def link(self, source: Device, target: Device) -> LinkCost:
        """Return the link from one device to another."""
        if not self.setting.one_process and source.host != target.host:
            return self.network
        if self.gpu is not None and (self.setting.is_gpu(source) or self.setting.is_gpu(target)):
            return LinkCost("process", self.gpu.latency, self.setting.link_speed or self.gpu.link)
        return self.near


NETWORK = LinkCost("network", hardware.NETWORK_LATENCY, hardware.NETWORK_SPEED)
"""The link between processes as long as none was measured."""


def table_costs(gpu: Hardware | None, cpu: Hardware, cores: int, setting: Setting | None = None) -> Costs:
    """Return the costs by the table of hardware alone; of no process is it known how many cores it uses."""
    setting = setting or Setting()

    def on_cpu(op: TimedOp) -> Cost:
        found = _by_table(op, cpu)
        return evolve(found, wide=max(found.alone / cores, LEAST))

    return Costs(
        setting,
        gpu,
        cores,
        step_start=hardware.STEP_START if setting.one_process else hardware.CLUSTER_START,
        start_cores=1.0,
        op_start=cpu.op_start,
        hand_over=cpu.latency,
        awake=0.0,
        estimate=True,
        near=LinkCost("process", 0.0, None),
        network=evolve(NETWORK, bytes_per_second=setting.link_speed or NETWORK.bytes_per_second),
        on_cpu=on_cpu,
    )


def profiled_costs(profile: Profile, setting: Setting | None = None, gpu: Hardware | None = None) -> Costs:
    """Return the costs by a profile; those of GPUs by the table."""
    setting = setting or Setting()
    links = {each.kind: each for each in reversed(profile.links)}
    near, far = links.get("process"), links.get("network", NETWORK)
    network = evolve(far, bytes_per_second=setting.link_speed or far.bytes_per_second)
    start = profile.step_start
    if not setting.one_process:
        start = hardware.CLUSTER_START if profile.cluster_start is None else profile.cluster_start
    return Costs(
        setting,
        gpu,
        profile.machine.cores,
        step_start=start,
        start_cores=1.0 if setting.one_process else profile.cluster_processors,
        op_start=profile.op_start,
        hand_over=profile.hand_over,
        awake=profile.awake if profile.tower_awake is None else profile.tower_awake,
        estimate=gpu is not None,
        near=LinkCost("process", near.latency if near is not None else 0.0, None),
        network=network,
        on_cpu=_Measured(profile).cost,
    )


@define(eq=False)
class _Measured:
    """The ops of a profile, for those that were measured and for others."""

    profile: Profile
    exact: Mapping[Signature, OpCost] = field(init=False)
    scales: Mapping[str, Scale] = field(init=False)
    plain: Scale | None = field(init=False)
    wide_cores: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        ops = self.profile.ops
        self.wide_cores = _wide_cores(self.profile)
        self.exact = {Signature(each.type, each.inputs, each.detail): each for each in ops}
        by_type = gathered((each.type, each) for each in ops)
        self.scales = {name: Scale.of(found) for name, found in by_type.items()}
        plain = [each for name in sorted(PLAIN & by_type.keys()) for each in by_type[name]]
        self.plain = Scale.of(plain) if plain else None

    def cost(self, op: TimedOp) -> Cost:
        """Return the cost of an op of a CPU."""
        return _repeated(evolve(self._look_up(op), wide_cores=self.wide_cores), op.times)

    def _look_up(self, op: TimedOp) -> Cost:
        profile, exact = self.profile, self.exact.get(op.signature)
        if exact is not None:
            wide = exact.alone if exact.wide is None else exact.wide
            return Cost(exact.runs * profile.op_start, exact.alone, exact.crowded, wide)
        roof = max(LEAST, op.flops / profile.flops_per_second, op.bytes / profile.bytes_per_second)
        size = size_of(op.flops, op.bytes)
        scale = self.scales.get(op.signature.type)
        if op.signature.type in PLAIN and (scale is None or scale.sizes[-1] < size):
            scale = self.plain or scale
        if scale is None:
            return Cost(profile.op_start, roof, roof, roof, estimated=True)
        alone = scale.seconds(size, roof)
        start = profile.op_start * (scale.runs if op.signature.detail else max(scale.runs, 1.0))
        return Cost(start, alone, alone * scale.crowding, alone * scale.widening, estimated=True)


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


def choose_costs(
    work: StepWork, devices: ir.Devices, machine: FoundProfile | None, cores: int
) -> Costs | None:
    """Return the costs of a step: by a profile, by the hardware that a spec names, or None without either.

    A profile holds ops of CPUs. Those of GPUs are estimated if the spec names their kind, and without that
    there is no forecast.
    """
    named = hardware.TABLE[devices.kind] if devices.kind is not None else None
    gpu = named if named is not None and named.kind == "gpu" else None
    setting = Setting(work.one_process, work.emulated, devices.link)
    if gpu is None and any(work.on_gpu(each) for each in work.ops):
        return None
    if machine is not None:
        costs = profiled_costs(machine.profile, setting, gpu if any(map(work.on_gpu, work.ops)) else None)
        return evolve(costs, source=machine.path)
    if named is None:
        return None
    cpu = named if named.kind == "cpu" else hardware.TABLE["cpu"]
    return evolve(table_costs(gpu, cpu, cores, setting), source=devices.kind or "")


# --- what ops of one type take by their size, for those in sizes that were not measured -------------------
#
# Between two sizes that were measured the time is on a line, below the smallest it is in proportion, and
# above the largest in proportion too, but not by more than the work of the op takes at the rates of the
# core.


LEAST = 2e-7
"""The shortest time of a run of an op that is estimated, in seconds."""


@frozen
class Scale:
    """The times of ops of one type by their work, from which those of other sizes are estimated."""

    # The work of each: bytes and operations added up, because one of the two prevails.
    sizes: tuple[float, ...]
    alone: tuple[float, ...]  # the times with one thread, which grow with the work
    crowding: float  # how much longer the type takes beside other ops
    widening: float  # how much shorter, or longer, it takes with more threads
    runs: float  # the kernels that an op of the type starts, as a mean

    @classmethod
    def of(cls, costs: list[OpCost]) -> Scale:
        """Return the times of measured ops of one type."""
        by_size = gathered((size_of(each.flops, each.bytes), each) for each in costs)
        sizes = tuple(sorted(by_size))
        means = [sum(each.alone for each in by_size[size]) / len(by_size[size]) for size in sizes]
        total = sum(each.alone for each in costs) or 1.0
        wide = sum(each.alone if each.wide is None else each.wide for each in costs)
        return cls(
            sizes,
            tuple(max(LEAST, each) for each in means),
            max(1.0, sum(each.crowded for each in costs) / total),
            wide / total or 1.0,
            sum(each.runs for each in costs) / len(costs),
        )

    def seconds(self, size: float, roof: float) -> float:
        """Return the time with one thread for a size: on a line between its neighbours, or in proportion.

        Args:
            size: The work of an op, in a size that was not measured.
            roof: What it takes at the rates of the core. Small ops take far longer than that, which says
                nothing about large ones.
        """
        at = bisect_left(self.sizes, size)
        if at == len(self.sizes):
            return min(self.alone[-1] * size / self.sizes[-1], self.alone[-1] + roof)
        if self.sizes[at] == size or at == 0:
            return max(LEAST, self.alone[at] * size / self.sizes[at])
        low, high = self.sizes[at - 1], self.sizes[at]
        part = (size - low) / (high - low)
        return (1 - part) * self.alone[at - 1] + part * self.alone[at]


def size_of(flops: int, size: int) -> float:
    """Return the work of an op as one number."""
    return float(max(1, flops + size))
