"""The work of the steps of several workers, each of which has a graph of its own.

The graphs of workers are alike: that of another worker has the ops of the chief on its own devices, without
those that only the chief has. Its work is therefore written from the chief's. A run goes on, or ends,
when the others have done their part, of which a bell tells it.

Of many workers that are alike, the last can stand for all but the first, as in a graph of many clones
(`compiler/kinds/grow_step.py`). What the others do on devices that are not their own is still there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from attrs import define, evolve, field, frozen

from compiler.plan import Plan, WorkerPlan
from compiler.process import intra_op_threads, on_one_machine, threads_on_one_machine, threads_sleep
from compiler.step.record import SMALL
from compiler.time.work import Arrow, Echo, Signature, StepWork, TimedOp
from compiler.topology import Device

ENDED, WAITING, AGAIN = "(end of a part)", "(waiting for others)", "(another run)"
"""What stands for the end of a worker's part of a step, for a process that waits for the others, and for one
that begins the next part at once."""

JOINED = "(joined gradients)"
"""What stands for small gradients that are sent as one tensor."""

_BUNDLES = 16
"""How many times at most what workers do on devices that are not their own is there, if one worker stands for
others: each time for several of these. The threads of a server share it."""


@frozen
class GraphPart:
    """A part of a graph that a session runs at once."""

    ops: tuple[TimedOp, ...] = field(repr=False)
    arrows: tuple[Arrow, ...] = field(repr=False)
    # The ops that each worker has on its own devices. The others are where the variables are.
    own: frozenset[int] = field(default=frozenset(), repr=False)
    # The ops that make gradients or add them up. Others that need one are beside its variable.
    gradients: frozenset[int] = field(default=frozenset(), repr=False)
    # The ops that other workers do not run, such as those of batch normalization's statistics.
    of_chief: frozenset[int] = field(default=frozenset(), repr=False)
    # The ops that put something into a queue, by its name.
    puts: Mapping[str, int] = field(factory=dict, repr=False)
    # The ops that take something out of a queue, by its name.
    takes: Mapping[str, int] = field(factory=dict, repr=False)

    @property
    def first(self) -> tuple[int, ...]:
        """The ops that wait for nothing."""
        waiting = {each.target for each in self.arrows}
        return tuple(at for at in range(len(self.ops)) if at not in waiting)

    @property
    def last(self) -> tuple[int, ...]:
        """The ops that nothing waits for."""
        used = {each.source for each in self.arrows}
        return tuple(at for at in range(len(self.ops)) if at not in used)


def work_of(plan: Plan, part: GraphPart) -> StepWork:
    """Return the work of some ops on the devices of a plan."""
    jobs = plan.spec.devices.jobs
    processes = {each.host for each in plan.topology.devices}
    shared = not plan.emulate and len(processes) > 1 and on_one_machine(jobs)
    return StepWork(
        ops=part.ops,
        arrows=part.arrows,
        devices=plan.topology.devices,
        one_process=plan.emulate or not jobs,
        one_machine=on_one_machine(jobs),
        emulated=plan.emulate,
        op_threads=plan.spec.devices.inter_op_threads or 0,
        inner_threads=intra_op_threads(plan),
        task_threads=threads_on_one_machine(plan.spec.devices) if shared else {},
        looking=not (shared or threads_sleep(plan)),
        pipelines=tuple(each.devices for each in plan.all_towers) if plan.update.schedule is not None else (),
    )


@frozen
class StepParts:
    """The parts of a step of the chief, from which those of all workers are written."""

    chief: GraphPart  # what the chief contributes, as each other worker does
    # What only the chief runs, when the others have contributed; None if the workers update the variables by
    # themselves.
    applied: GraphPart | None = None
    # What every worker runs after that, if all give each other what they have updated.
    shared: GraphPart | None = None


def steps_of_all(plan: WorkerPlan, parts: StepParts, *, fold: bool = False) -> StepWork:
    """Return the work of the steps of all workers."""
    if parts.applied is None:
        return _steps_alone(plan, parts.chief, fold=fold)
    return (_folded if fold else _together)(plan, parts.chief, parts.applied)


def steps_between(plan: WorkerPlan, workers: Sequence[StepParts]) -> StepWork:
    """Return the work of workers that send each other sums: what one takes out of a queue another puts there.

    Args:
        workers: The parts of a step of each. Each applies the sums by itself, in a run of its own.
    """
    joined, puts, takes = _Joined(), dict[str, int](), list[tuple[str, int]]()
    for worker, parts in enumerate(workers):
        assert parts.applied is not None
        last: Sequence[int] = ()
        for run in (parts.chief, parts.applied, parts.shared):
            if run is None:
                continue
            first = _first_device(plan, worker)
            again = joined.after([joined.after(last, ENDED, first)], AGAIN, first) if last else None
            numbers = joined.add(run)
            if again is not None:
                joined.arrows += [Arrow(again, numbers[at]) for at in run.first]
            puts |= {queue: numbers[at] for queue, at in run.puts.items()}
            takes += [(queue, numbers[at]) for queue, at in run.takes.items()]
            last = [numbers[at] for at in run.last]
    joined.arrows += [Arrow(puts[queue], at) for queue, at in takes]
    return work_of(plan, joined.part)


def _steps_alone(plan: WorkerPlan, chief: GraphPart, *, fold: bool) -> StepWork:
    """Return the work of workers that update the variables by themselves: each repeats its own ops."""
    joined, loops, last = _Joined(), [], plan.worker.count - 1
    for worker in (0, last) if fold else range(last + 1):
        numbers = joined.add(of_worker(plan, chief, worker))
        loops.append(tuple(numbers))
    work = evolve(work_of(plan, joined.part), loops=tuple(loops))
    return _without(work, plan) if fold else work


def _without(work: StepWork, plan: WorkerPlan) -> StepWork:
    """Return the work of workers without the devices of those that the last one stands for."""
    last = plan.worker.count - 1
    hosts = [_first_device(plan, worker).host for worker in range(last + 1)]
    left_out = set(hosts[1:last])
    devices = tuple(each for each in work.devices if each.host not in left_out)
    return evolve(work, devices=devices, alike={hosts[last]: last})


def _together(plan: WorkerPlan, chief: GraphPart, applied: GraphPart) -> StepWork:
    """Return the work of a step to which all workers contribute, and which the chief applies."""
    joined, ended = _Joined(), []
    for worker in range(plan.worker.count):
        part = of_worker(plan, chief, worker)
        numbers = joined.add(part)
        device = _first_device(plan, worker)
        ended.append(joined.after([numbers[at] for at in part.last], ENDED, device))
    needed = ended[: max(1, plan.worker.count - plan.update.backup)]
    done = _apply(plan, joined, applied, needed)
    _wait(plan, joined, done, {worker: ended[worker] for worker in range(1, plan.worker.count)})
    return work_of(plan, joined.part)


def _apply(plan: WorkerPlan, joined: _Joined, applied: GraphPart, needed: Sequence[int]) -> list[int]:
    """Let the chief apply what has been contributed; return what ends the applying.

    It does so in the run in which it contributes, unless it has to see first whose contributions are there.

    Args:
        needed: What ends the parts of those workers for which it waits.
    """
    if plan.update.backup:
        chief = _first_device(plan, 0)
        begins = joined.after([joined.after(needed, WAITING, chief)], AGAIN, chief)
    else:
        begins = joined.after(needed, WAITING, applied.ops[applied.first[0]].device)
    numbers = joined.add(applied)
    joined.arrows += [Arrow(begins, numbers[at]) for at in applied.first]
    return [numbers[at] for at in applied.last]


def _wait(plan: WorkerPlan, joined: _Joined, done: Sequence[int], ended: Mapping[int, int]) -> None:
    """Let other workers wait until the chief has applied what they contributed."""
    for worker, end in ended.items():
        joined.after([end, *done], WAITING, _first_device(plan, worker))


def _folded(plan: WorkerPlan, chief: GraphPart, applied: GraphPart) -> StepWork:
    """Return the work of a step of all workers, in which the last stands for all but the first.

    Of the others there is what they do on devices that are not their own. It waits for the last worker, and
    what it sends to them is an echo.
    """
    last = plan.worker.count - 1
    first, part = (of_worker(plan, chief, worker) for worker in (0, last))
    devices = [_first_device(plan, worker) for worker in range(last + 1)]
    shared = [at for at, each in enumerate(part.ops) if each.device.host != devices[last].host]
    joined, echoes = _Joined(), []
    numbers = joined.add(first)
    ended = joined.after([numbers[at] for at in first.last], ENDED, devices[0])
    bundles = [
        (count, dict(zip(shared, joined.add(_several(part, shared, count)), strict=True)))
        for count in _bundles(last - 1)
    ]
    numbers = joined.add(part)
    ended_last = joined.after([numbers[at] for at in part.last], ENDED, devices[last])
    there = set(shared)
    crossing = [each for each in part.arrows if (each.source in there) != (each.target in there)]
    for arrow, (count, others) in product(crossing, bundles):
        if arrow.target in there:
            ends = numbers[arrow.source], others[arrow.target]
            joined.arrows.append(Arrow(*ends, arrow.tensor, arrow.bytes))
        else:
            device = part.ops[arrow.target].device
            echoes.append(Echo(others[arrow.source], device, arrow.tensor, arrow.bytes, count))
    done = _apply(plan, joined, applied, [ended, ended_last])
    _wait(plan, joined, done, {last: ended_last})
    echoes += [Echo(each, devices[last], "", 0, last - 1) for each in done]
    return evolve(
        _without(work_of(plan, joined.part), plan),
        echoes=tuple({(each.source, each.tensor, each.target): each for each in echoes}.values()),
    )


def _several(part: GraphPart, chosen: Sequence[int], workers: int) -> GraphPart:
    """Return some ops of a part as one of several workers has them, each of which runs for all of these."""
    numbers = {before: now for now, before in enumerate(chosen)}
    return GraphPart(
        tuple(evolve(part.ops[at], times=part.ops[at].times * workers) for at in chosen),
        tuple(
            evolve(each, source=numbers[each.source], target=numbers[each.target])
            for each in part.arrows
            if each.source in numbers and each.target in numbers
        ),
    )


def _bundles(workers: int) -> list[int]:
    """Return for how many workers the ops of each bundle are."""
    together = -(-workers // _BUNDLES)
    return [min(together, workers - start) for start in range(0, workers, together)]


def of_worker(plan: WorkerPlan, chief: GraphPart, worker: int) -> GraphPart:
    """Return a part of the chief's graph as another worker has it, with its own clones and devices.

    If the chief is where variables are, the graphs of others also differ: they have constants, and what is
    made of constants alone, on each device that needs them, and join small gradients that they send there.
    """
    if worker == plan.worker.index:
        return chief
    own = plan.worker.everyone[worker][0].device.host
    devices = plan.devices_for(own)
    clones = len(plan.worker.everyone[worker])
    kept = [
        at
        for at, each in enumerate(chief.ops)
        if at not in chief.of_chief and (each.clone is None or each.clone < clones)
    ]
    numbers = {before: now for now, before in enumerate(kept)}

    def moved(at: int) -> TimedOp:
        op = chief.ops[at]
        return op.on(devices.get(op.device, op.device)) if at in chief.own else op

    ops, constant = {at: moved(at) for at in kept}, _constant(chief)
    arrows, sent = list[Arrow](), dict[tuple[Device, Device], list[Arrow]]()
    for each in chief.arrows:
        if each.source not in numbers or each.target not in numbers:
            continue
        source, target = ops[each.source].device, ops[each.target].device
        apart = source.host != target.host and chief.ops[each.source].device.host == target.host
        arrow = Arrow(numbers[each.source], numbers[each.target], each.tensor, each.bytes)
        is_last = each.source in chief.gradients and each.target not in chief.gradients
        if apart and is_last and each.bytes <= SMALL:
            sent.setdefault((source, target), []).append(arrow)
        elif not (apart and each.source in constant):
            arrows.append(arrow)
    part = GraphPart(tuple(ops.values()), tuple(arrows))
    for (source, _), together in sent.items():
        part = _joining(part, together, source)
    return part


def _joining(part: GraphPart, sent: Sequence[Arrow], source: Device) -> GraphPart:
    """Return a part in which tensors are joined before they are sent to another device.

    Args:
        part: The part, without what waits for these tensors.
        sent: The tensors, each with an op that waits for it. A single one is sent as it is.
    """
    made = {(each.source, each.tensor): each for each in sent}
    if len(made) == 1:
        return evolve(part, arrows=(*part.arrows, *sent))
    size, number = sum(each.bytes for each in made.values()), len(part.ops)
    shapes = tuple(f"float32[{each.bytes // 4}]" for each in made.values())
    joined = TimedOp(JOINED, Signature("ConcatV2", shapes), source, 0, 2 * size, scope="update")
    return evolve(
        part,
        ops=(*part.ops, joined),
        arrows=(
            *part.arrows,
            *(evolve(each, target=number) for each in made.values()),
            *(Arrow(number, each, f"{JOINED}:0", size) for each in {each.target: None for each in sent}),
        ),
    )


def _constant(part: GraphPart) -> frozenset[int]:
    """Return the ops that are constants, and those that depend on nothing else."""
    sources: dict[int, list[int]] = {}
    for each in part.arrows:
        sources.setdefault(each.target, []).append(each.source)
    found: set[int] = set()
    for at, op in enumerate(part.ops):
        needed = sources.get(at)
        if op.signature.type == "Const" if needed is None else found.issuperset(needed):
            found.add(at)
    return frozenset(found)


def _first_device(plan: WorkerPlan, worker: int) -> Device:
    return plan.worker.everyone[worker][0].device


@define
class _Joined:
    """Parts of several graphs as one."""

    ops: list[TimedOp] = field(factory=list)
    arrows: list[Arrow] = field(factory=list)

    @property
    def part(self) -> GraphPart:
        return GraphPart(tuple(self.ops), tuple(self.arrows))

    def add(self, part: GraphPart) -> range:
        """Add a part; return the numbers that its ops have now."""
        start = len(self.ops)
        self.ops += part.ops
        self.arrows += [
            Arrow(each.source + start, each.target + start, each.tensor, each.bytes) for each in part.arrows
        ]
        return range(start, len(self.ops))

    def after(self, sources: Sequence[int], what: str, device: Device) -> int:
        """Add what stands for the end of a part, or for waiting, after some ops; return its number."""
        number, scope = len(self.ops), what.strip("()")
        self.ops.append(
            TimedOp(
                what,
                Signature("NoOp", ()),
                device,
                0,
                0,
                scope=f"({scope})",
                begins=what == AGAIN,
            )
        )
        self.arrows += [Arrow(each, number) for each in sources]
        return number
