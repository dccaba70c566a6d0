"""A step made ready to be simulated: what each op and each tensor asks of threads, and whom it tells.

All of this stays as it is while the step runs. So it is found once, for a bound of the time of the step and
for every simulation of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from attrs import define, field, frozen

from compiler.time.costs import Cost, Costs
from compiler.time.profile import LinkCost
from compiler.time.simulation.machines import spread
from compiler.time.work import StepWork
from compiler.topology import Device, Host

SHORT = 3e-6
"""Ops that take less than this, in seconds, stay on the thread that has made them ready.

TensorFlow counts 8,000 cycles of the processor.
"""


class Demand(NamedTuple):
    """What a task asks of its thread."""

    seconds: float  # how long it takes if nothing else uses the machine
    cores: float  # the cores that it uses meanwhile
    crowding: float  # how many times as long it takes if all cores are busy with other tasks


@define(eq=False)
class Send:
    """Hands a tensor of an op to the ops on another device that wait for it."""

    source: Device
    target: Device
    tensor: str
    size: int
    link: LinkCost
    targets: list[int] = field(factory=list)  # the numbers of the ops that wait
    # To how many devices that are alike it is handed, one after the other. Only the last of them is
    # simulated.
    times: int = 1
    rounds: int = 1  # how often a step hands it over, one after the other

    @property
    def seconds(self) -> float:
        """How long the link is taken by the tensor, without the latency."""
        return self.link.seconds(self.size) * self.rounds

    @property
    def latency(self) -> float:
        """How long the tensor is on its way besides, all rounds together."""
        return self.link.latency * self.rounds


@frozen(eq=False)
class PreparedStep:
    """A step with its costs; lists without another key are by the number of the op."""

    work: StepWork = field(repr=False)
    costs: Costs = field(repr=False)
    hosts: dict[Host, int]  # the number of the process of each host
    homes: Sequence[int]  # by process: the number of its machine
    copies: Sequence[int]  # by process: how many on its machine it stands for
    pool: int  # the threads of each process
    awake: float  # the cores that a process uses at least while it runs an op
    devices: Sequence[int] = field(repr=False)
    processes: Sequence[int] = field(repr=False)
    on_gpu: Sequence[bool] = field(repr=False)
    op_costs: Sequence[Cost] = field(repr=False)
    # What it asks of its thread: with a GPU, only to be started.
    demands: Sequence[Demand] = field(repr=False)
    short: Sequence[bool] = field(repr=False)  # whether it stays on the thread that has made it ready
    waits: Sequence[int] = field(repr=False)  # what it waits for, as a number of inputs
    local: Sequence[Sequence[int]] = field(repr=False)  # the ops on its device that wait for it
    sent: Sequence[Sequence[int]] = field(repr=False)  # the numbers of its sends
    sends: Sequence[Send] = field(repr=False)
    # By send: what the sending op and the receiving one ask of the thread of the sender.
    giving: Sequence[Demand] = field(repr=False)
    # By send: what its receiver asks of a thread before the tensor can be sent.
    asking: Sequence[Demand] = field(repr=False)

    def demand_of(self, task: int) -> Demand:
        """Return what a task asks of its thread.

        Args:
            task: The number of an op; from the number of ops on, that of a send; and below 0 that of a
                receiver that asks for a tensor, -1 for the first send.
        """
        if task < 0:
            return self.asking[-1 - task]
        count = len(self.demands)
        return self.demands[task] if task < count else self.giving[task - count]

    def rounds_of(self, task: int) -> int:
        """Return in how many rounds of a loop a task is done; `task` is that of `demand_of`."""
        if task < 0:
            return self.sends[-1 - task].rounds
        count = len(self.demands)
        return self.work.ops[task].rounds if task < count else self.sends[task - count].rounds

    def home_of(self, device: Device) -> int:
        """Return the number of the machine that a device is in."""
        return self.homes[self.hosts[device.host]]


def prepare(work: StepWork, costs: Costs) -> PreparedStep:
    """Return a step made ready to be simulated on machines with these costs."""
    hosts = list(dict.fromkeys(None if work.one_process else each.host for each in work.devices))
    numbered = {host: at for at, host in enumerate(hosts)}
    of_host = {each.host: numbered[None if work.one_process else each.host] for each in work.devices}
    inner = [work.inner_threads if host is None else work.threads_of(host) for host in hosts]
    inner = [max(1, each or costs.cores) for each in inner]
    shared = {numbered[host]: count for host, count in work.alike.items()} if work.one_machine else {}
    devices = work.device_numbers()
    one_of = dict(zip(devices, work.ops, strict=True))  # an op of each device
    process_of = {number: of_host[op.device.host] for number, op in one_of.items()}
    is_gpu = {number: work.on_gpu(op) for number, op in one_of.items()}
    processes, on_gpu = [process_of[each] for each in devices], [is_gpu[each] for each in devices]
    op_costs = [costs.of(op) for op in work.ops]
    waits, local, sent, sends = _connections(work, costs, devices)
    return PreparedStep(
        work=work,
        costs=costs,
        hosts=of_host,
        homes=[0 if work.one_machine else at for at in range(len(hosts))],
        copies=[shared.get(at, 1) for at in range(len(hosts))],
        pool=max(1, work.op_threads or costs.cores),
        awake=min(float(max(inner, default=1)), costs.awake) if work.looking else 1.0,
        devices=devices,
        processes=processes,
        on_gpu=on_gpu,
        op_costs=op_costs,
        demands=[
            Demand(cost.start, 1.0, 1.0) if gpu else _demand(cost, inner[process], costs.cores)
            for cost, gpu, process in zip(op_costs, on_gpu, processes, strict=True)
        ],
        short=[
            cost.alone < SHORT * op.rounds and not gpu
            for op, cost, gpu in zip(work.ops, op_costs, on_gpu, strict=True)
        ],
        waits=waits,
        local=local,
        sent=sent,
        sends=sends,
        giving=[_giving(each, costs.op_start) for each in sends],
        asking=[_asking(each, work.alike.get(each.source.host, 1)) for each in sends],
    )


def _demand(cost: Cost, inner: int, cores: int) -> Demand:
    wall, used = spread(cost, inner, cores)
    crowding = max(1.0, cost.crowded / cost.alone) if cost.alone > 0 else 1.0
    return Demand(cost.start + wall, used, crowding)


def _giving(send: Send, op_start: float) -> Demand:
    link = send.link
    return Demand((2 * op_start + link.giving) * send.times * send.rounds, link.thread_cores, 1.0)


def _asking(send: Send, copies: int) -> Demand:
    return Demand(send.link.asking * copies * send.rounds, send.link.thread_cores, 1.0)


def _connections(
    work: StepWork, costs: Costs, devices: Sequence[int]
) -> tuple[list[int], list[list[int]], list[list[int]], list[Send]]:
    """Return what each op waits for and tells: ops on its device, and each other device once."""
    ops = work.ops
    waits = [0] * len(ops)
    local: list[list[int]] = [[] for _ in ops]
    sent: list[list[int]] = [[] for _ in ops]
    sends: list[Send] = []
    known: dict[tuple[int, str, int], Send] = {}
    links: dict[tuple[int, int], LinkCost] = {}
    for arrow in work.arrows:
        at, target = arrow.source, arrow.target
        pair = (devices[at], devices[target])
        waits[target] += 1
        if pair[0] == pair[1]:
            local[at].append(target)
            continue
        key = (at, arrow.tensor, pair[1])
        send = known.get(key)
        if send is None:
            ends = ops[at].device, ops[target].device
            if pair not in links:
                links[pair] = costs.link(*ends)
            send = Send(*ends, arrow.tensor, arrow.bytes, links[pair], rounds=ops[at].rounds)
            known[key] = send
            sent[at].append(len(sends))
            sends.append(send)
        send.targets.append(target)
    _add_echoes(work, costs, sent, sends)
    return waits, local, sent, sends


def _add_echoes(work: StepWork, costs: Costs, sent: list[list[int]], sends: list[Send]) -> None:
    """Let ops hand tensors to processes that are not simulated, before they do so to that which is."""
    for echo in work.echoes:
        own = [sends[each] for each in sent[echo.source]]
        send = next((each for each in own if each.target.host in work.alike), None)
        if send is not None:
            send.times += echo.count
            continue
        source = work.ops[echo.source].device
        link = costs.link(source, echo.target)
        sent[echo.source].append(len(sends))
        sends.append(Send(source, echo.target, echo.tensor, echo.bytes, link, times=echo.count))
