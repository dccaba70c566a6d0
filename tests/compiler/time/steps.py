"""Small steps and machines made by hand, whose times can be computed in the head."""

from attrs import evolve, frozen

from compiler.time.costs import Cost
from compiler.time.profile import LinkCost
from compiler.time.work import Arrow, Signature, StepWork, TimedOp
from compiler.topology import Device

CPU = Device("cpu", 0, ordinal=0)
OTHER_CPU = Device("cpu", 1, ordinal=1)
GPU = Device("gpu", 0, ordinal=2)
SECOND_GPU = Device("gpu", 1, ordinal=3)


@frozen
class Machine:
    """Costs without any rule: each op takes what its name says, in milliseconds, as in `a=10`."""

    cores: int = 2
    step_start: float = 0.0
    start_cores: float = 1.0
    op_start: float = 0.0
    hand_over: float = 0.0
    estimate: bool = False
    source: str = ""
    awake: float = 0.0
    crowding: float = 1.0
    widening: float = 1.0
    start: float = 0.0
    speed: float | None = None
    latency: float = 0.0
    processors: float = 0.0
    message: float = 0.0
    work: float = 0.0
    asking: float = 0.0
    giving: float = 0.0
    wide_cores: float = 1.0

    def of(self, op: TimedOp) -> Cost:
        """Return the cost of an op."""
        alone = float(op.name.partition("=")[2]) * 1e-3
        wide = alone * self.widening
        return Cost(self.start, alone, alone * self.crowding, wide, wide_cores=self.wide_cores)

    def link(self, source: Device, target: Device) -> LinkCost:
        """Return the link from one device to another."""
        del source, target
        return LinkCost(
            "network",
            self.latency,
            self.speed,
            self.message,
            self.processors,
            self.work,
            self.asking,
            self.giving,
        )


def op(name: str, device: Device = CPU, scope: str = "", rule: str = "") -> TimedOp:
    """Return an op whose name has its time, as in `a=10`."""
    return TimedOp(name, Signature("Op", ()), device, 0, 0, scope=scope or name.partition("=")[0], rule=rule)


def step(
    ops: list[TimedOp], arrows: list[tuple[str, str]], sizes: dict[str, int] | None = None, **more: object
) -> StepWork:
    """Return a step; arrows are pairs of the letters of ops, `sizes` the bytes of what a letter makes."""
    letters = [each.name.partition("=")[0] for each in ops]
    number = {name: at for at, name in enumerate(letters)}
    made = [
        Arrow(number[source], number[target], f"{source}:0", (sizes or {}).get(source, 0))
        for source, target in arrows
    ]
    devices = tuple(dict.fromkeys(each.device for each in ops))
    work = StepWork(tuple(ops), tuple(made), devices, inner_threads=1)
    return evolve(work, **more) if more else work
