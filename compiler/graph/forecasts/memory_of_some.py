"""The memory of a step of hundreds of clones that are summed in a tree, from a step of some of them.

TensorFlow's simulation of a step takes about 40 kB for each op: more than 20 GB for 512 clones of ResNet-50.
A tower takes the same memory among few clones as among many. In a tree, what a clone adds depends only on the
levels in which it takes part: of half of the clones one, of a quarter two, and so on. So the graph of the
clones on some of the tasks is built, and each device of the whole graph is like that one of these whose ops
it has. A clone that adds in more levels than any of these is like one of them that adds in many.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from compiler.graph.build import compile_step
from compiler.graph.compiled import CompiledGraph
from compiler.graph.finished import in_graph
from compiler.graph.inspect.memory.forecast import forecast_step_memory
from compiler.kinds.deployment.grid import Grid, NotAlikeError
from compiler.kinds.deployment.layout import grid_of, with_grid
from compiler.mapping.records import MapTensor
from compiler.pipeline import make_plan
from compiler.plan import Plan, WorkerPlan
from compiler.step.read.map import StepMemory
from compiler.topology import Device
from dsl.diagnostics import SpecError

MOST_OPS = 100_000
"""The most ops of a graph with a tree whose step is simulated as a whole."""

_CLONES, _TASKS = 32, 4
"""How many clones are simulated, unless they are on fewer tasks than these. The first clone of the second of
four tasks adds nothing of other tasks, and that of the third adds something of one level."""

_IN_LEVELS = "tree"
"""The aggregation by which most clones of many add what clones of a few add."""

_NUMBER = re.compile(r"\d+")
_RECEIVED = re.compile(r"Recv_(?P<op>.+)_(?P<output>\d+)_on_/job_")
_PAIR = re.compile(r"level_(?P<level>\d+)/pair_(?P<pair>\d+)")


def simulated_plan(compiled: CompiledGraph) -> Plan | None:
    """Return the plan of the clones from whose step the memory of all is forecast; None if all are simulated.

    Args:
        compiled: The graph of all clones.
    """
    plan = compiled.plan
    if len(compiled.ledger.entries) <= MOST_OPS or plan.update.aggregate.name != _IN_LEVELS:
        return None
    return plan_of_some(plan)


def plan_of_some(plan: Plan, clones: int = _CLONES) -> Plan | None:
    """Return the plan of the clones on some tasks; None if there are no more, or if clones are not alike.

    Args:
        plan: The plan of all clones.
        clones: About how many clones are wanted.
    """
    if isinstance(plan, WorkerPlan) or plan.emulate:
        return None
    try:
        grid = grid_of(plan, rounds=True)
        tasks = max(_TASKS, clones // grid.groups)
        if tasks >= grid.hosts:
            return None
        some = make_plan(with_grid(plan, grid.cut(tasks, grid.groups)))
    except (NotAlikeError, SpecError):  # what is wrong with fewer tasks says nothing about all
        return None
    return evolve(some, model=plan.model)


def memory_from_some(compiled: CompiledGraph, plan: Plan) -> dict[str, StepMemory]:
    """Return the peak of a step on each device, by the device's name in specs.

    Args:
        compiled: The graph of all clones, whose inputs have fixed shapes.
        plan: What `simulated_plan` returns for it.
    """
    base = str(Path(compiled.plan.spec.path).parent)
    some = compile_step(plan, base=base, seed=compiled.seed)
    peaks = forecast_step_memory(some)
    grid = grid_of(compiled.plan, rounds=True)
    renamed = _Renamed(in_graph(compiled), grid, len(plan.towers))
    likes = _likes(compiled, some, grid)
    return {each.ref: renamed.memory(peaks[like.ref], like, each) for each, like in likes}


def _likes(compiled: CompiledGraph, some: CompiledGraph, grid: Grid) -> Iterator[tuple[Device, Device]]:
    """Yield each device, and that one in the graph of some clones which has the most similar ops.

    It has the same number on its task. A device that is on no task with clones is like itself.
    """
    there: dict[tuple[str, int], list[Device]] = defaultdict(list)
    for each in some.plan.topology.devices:
        if each.job == grid.job:
            there[each.kind, each.index].append(each)
    known: dict[str, int] = {}
    all_ops, some_ops = (_ops_by_device(each, grid, known) for each in (compiled, some))
    same = {each.ref: each for each in some.plan.topology.devices}
    for device in compiled.plan.topology.devices:
        if device.job != grid.job:
            yield device, same[device.ref]
            continue
        own = all_ops[device]
        yield device, _most_similar(own, device, there[device.kind, device.index], some_ops)


def _ops_by_device(
    compiled: CompiledGraph, grid: Grid, known: dict[str, int]
) -> Mapping[Device, Counter[int]]:
    """Count the ops of each device of the tasks with clones, by their names without numbers.

    Args:
        compiled: The graph.
        grid: The grid of the clones.
        known: The numbers of these names, to which new ones are added.
    """
    found: dict[Device, Counter[int]] = defaultdict(Counter)
    for name, entry in compiled.ledger.entries.items():
        if entry.device.job == grid.job:
            found[entry.device][known.setdefault(_NUMBER.sub("", name), len(known))] += 1
    return found


def _most_similar(
    own: Counter[int], device: Device, others: Sequence[Device], ops: Mapping[Device, Counter[int]]
) -> Device:
    """Return the device whose ops differ least; of several the one with the same name, or else the first.

    Args:
        own: The ops of the device.
        device: The device.
        others: The devices that it may be like.
        ops: The ops of these.
    """
    return min(others, key=lambda each: (_difference(own, ops[each]), each.ref != device.ref))


def _difference(own: Counter[int], other: Counter[int]) -> int:
    return (own - other).total() + (other - own).total()


def _by_size(tensor: MapTensor) -> tuple[int, str, int]:
    """Return what orders the tensors of a peak: the largest first, and equal ones by name."""
    op, _, output = tensor.name.rpartition(":")
    return -tensor.bytes, op, int(output)


@frozen
class _Renamed:
    """The names of tensors in the graph of some clones as those of other clones in the graph of all.

    Attributes:
        compiled: The graph of all clones.
        grid: The grid of all clones.
        some: The number of the clones that have the names.
    """

    compiled: CompiledGraph
    grid: Grid
    some: int

    def memory(self, peak: StepMemory, like: Device, device: Device) -> StepMemory:
        """Return the peak of a device, with those of its tensors that the graph of all clones has there.

        Args:
            peak: The peak of the device of some clones that it is like.
            like: That device.
            device: The device.
        """
        moved = device.task - like.task
        named = (MapTensor(self._name(each.name, device, moved), each.bytes) for each in peak.alive)
        there = [each for each in named if self._is_there(each.name, device)]
        alive = tuple(sorted(there, key=_by_size))
        return StepMemory(peak.bytes, alive[: len(peak.largest)], alive)

    def _is_there(self, name: str, device: Device) -> bool:
        """Whether an op on a device makes a tensor, or receives it: what copies are made from depends on all.

        Args:
            name: The name of the tensor in the simulation.
            device: The device.
        """
        received = _RECEIVED.match(name)
        if received is None:
            op = self._op(name.rpartition(":")[0])
            return op is not None and self._device(op) == device
        op = self._op(received["op"])
        if op is None or op.name != received["op"]:  # a value that stands for the reads of a variable
            return op is not None
        users = op.outputs[int(received["output"])].consumers()
        return any(self._device(each) == device for each in users)

    def _op(self, name: str) -> Any:
        """Return an op; the simulation has nodes in place of some ops, in scopes with their names."""
        entries = self.compiled.ledger.entries
        found = name if name in entries else name.rpartition("/")[0]
        return self.compiled.graph.get_operation_by_name(found) if found in entries else None

    def _device(self, op: Any) -> Device:
        return self.compiled.ledger.entries[op.name].device

    def _name(self, name: str, device: Device, moved: int) -> str:
        if device.job != self.grid.job:
            return _PAIR.sub(self._last_levels, name)
        return self._numbers.sub(lambda match: self._moved(match, moved), name) if moved else name

    def _last_levels(self, match: re.Match[str]) -> str:
        """Return the name of a sum that is there because it is one of the last: there are more levels.

        What the last pair adds to the sums of clone 0 was added in the last level in which its clone has one
        to add.
        """
        more = (self.grid.clones - 1).bit_length() - (self.some - 1).bit_length()
        level, pair = int(match["level"]) + more, int(match["pair"]) << more
        if pair:
            level = (self.grid.clones - pair - 1).bit_length() - 1
            level = min(level, pair.bit_length() - 2)
        return f"level_{level}/pair_{pair}"

    @property
    def _numbers(self) -> re.Pattern[str]:
        """What finds the numbers of clones and of their tasks in names."""
        job = re.escape(str(self.grid.job))
        return re.compile(
            r"(?:^|(?<=Recv_)|(?<=/))clone_(?P<clone>\d+)(?=/)"
            r"|level_\d+/pair_(?P<pair>\d+)"
            r"|/replica_(?P<copy>\d+)(?=[/:_])(?!/task_)"
            rf"|/job_{job}/replica_0/task_(?P<task>\d+)"
            r"|(?:^|(?<=Recv_))input/(?P<pipe>\d+)(?=/)"
        )

    def _moved(self, match: re.Match[str], tasks: int) -> str:
        kind = str(match.lastgroup)
        by = tasks if kind in ("task", "pipe") else tasks * self.grid.groups
        start, stop = match.start(kind) - match.start(), match.end(kind) - match.start()
        return f"{match[0][:start]}{int(match[kind]) + by}{match[0][stop:]}"
