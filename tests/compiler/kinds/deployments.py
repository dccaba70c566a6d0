"""Maps of clones on tasks, written down clone by clone, to hold against what is grown from a few."""

from __future__ import annotations

from compiler.kinds.grid import MapGrid
from compiler.mapping.records import (
    MapClone,
    MapDevice,
    MapMode,
    MapOp,
    MapSlot,
    MapSpec,
    MapTensor,
    MapTransfer,
    MapVariable,
    PlacementMap,
    RuleRef,
)
from compiler.pipeline import make_plan
from compiler.plan import Plan
from tests.placement_maps import with_counts
from tests.specs import CLASSES
from tests.support import spec_of

SERVER, OTHER = "ps[0].cpu[0]", "ps[1].cpu[0]"
VARIABLES = RuleRef("a.tfdeploy", 9, 3, 'variables("{*}") -> ps[0]', "rule")  # with braces of its own
CLONES = RuleRef("a.tfdeploy", 8, 3, "clones -> worker[*].gpu[*]", "rule")
LARGEST = 5
NAMES = (
    "clone_{clone}",
    "input/{task}/next",
    *(f"clone_{{clone}}/{each}" for each in ("w/read", "hash", "MatMul", "fc/MatMul", "odd{{}}", "mean")),
    *(f"clone_{{clone}}/{each}" for each in ("part", "grad")),
    "norm/mean/replica_{clone}",
    "norm/mean/replica_{clone}/Adam",
)
"""The names of things in these maps, with places for their numbers."""


def grid_of(tasks: int, clones: int) -> MapGrid:
    """Return the grid of tasks with equally many clones, one on each GPU."""
    return MapGrid("worker", "gpu", tasks, clones, 1)


def plan_of(tasks: int, clones: int) -> Plan:
    """Return a plan that has the devices of such a grid, and two servers."""
    jobs = f'job "ps" {{ tasks = 2 }}\n job "worker" {{ tasks = {tasks}, gpu = {clones} }}'
    return make_plan(spec_of(f"{CLASSES}devices {{\n {jobs}\n}}\nclones {{ batch = 2 }}\n"))


def cpu(task: int) -> str:
    """Return the processor of a task."""
    return f"worker[{task}].cpu[0]"


def gpu(task: int, clone: int) -> str:
    """Return the device of a clone."""
    return f"worker[{task}].gpu[{clone}]"


def map_of(tasks: int, clones: int) -> PlacementMap:
    """Return the map of clones that share a graph; one of the variables has a copy for each of them."""
    numbers = {(task, at): task * clones + at for task in range(tasks) for at in range(clones)}
    ops = [_op("w", "VarHandleOp", "variable", SERVER, VARIABLES)]
    ops += [_op(pipe(each), "IteratorGetNext", "input", cpu(each), _of_task(each)) for each in range(tasks)]
    for (task, at), number in numbers.items():
        own = RuleRef(None, None, None, "fc", "default", f"clones -> {gpu(task, at)}")
        name = f"clone_{number}"
        ops += [
            _op(f"{name}/w/read", "ReadVariableOp", "read", SERVER, _follows("w"), number),
            _op(f"{name}/hash", "StringToHash", "forward", cpu(task), _of_task(task), number),
            _op(f"{name}/MatMul", "MatMul", "forward", gpu(task, at), CLONES, number),
            _op(f"{name}/odd{{}}", "Relu", "forward", gpu(task, at), own, number),
            _op(f"{name}/mean", "Mul", "read", gpu(task, at), _follows(_copy(number)), number),
        ]
    ops.append(_op("update/apply", "AssignSub", "update", SERVER, _follows("w")))
    links = [_link(SERVER, gpu(*each), {f"clone_{number}/w/read:0": 64}) for each, number in numbers.items()]
    links += [_link(cpu(each[0]), gpu(*each), {f"{pipe(each[0])}:0": 16}) for each in numbers]
    links.append(_link(SERVER, OTHER, {f"clone_{number}/part:0": 8 for number in numbers.values()}))
    for each, number in numbers.items():
        links.append(_link(gpu(*each), SERVER, {f"clone_{number}/grad:0": 40}, unknown=1))
    copied = _copied([gpu(*each) for each in numbers])
    scopes = [f"clone_{number}" for number in numbers.values()]
    return with_counts(_map(tasks, clones, ops, links, [_shared(), copied], scopes))


def pipe(task: int) -> str:
    """Return the name of the op that gets the examples of a task."""
    return f"input/{task}/next" if task else "input/next"


def _copy(number: int) -> str:
    return f"norm/mean/replica_{number}" if number else "norm/mean"


def _follows(name: str) -> RuleRef:
    return RuleRef("a.tfdeploy", 9, 3, name, "follows", VARIABLES.text)


def _of_task(task: int) -> RuleRef:
    return RuleRef(None, None, None, f"inputs -> {cpu(task)}", "default")


def _op(name: str, kind: str, role: str, device: str, rule: RuleRef, clone: int | None = None) -> MapOp:
    return MapOp(name, kind, clone, role, device, None, rule)


def _link(source: str, target: str, tensors: dict[str, int], unknown: int = 0) -> MapTransfer:
    ranked = sorted(tensors.items(), key=lambda each: (-each[1], each[0]))[:LARGEST]
    largest = tuple(MapTensor(name, size) for name, size in ranked)
    return MapTransfer(source, target, len(tensors) + unknown, sum(tensors.values()), unknown, largest)


def _shared() -> MapVariable:
    slots = (MapSlot("w/Adam", 64, SERVER),)
    return MapVariable("w", (4, 4), "float32", 64, True, SERVER, (), slots, VARIABLES)


def _copied(gpus: list[str]) -> MapVariable:
    slots = tuple(MapSlot(f"{_copy(at)}/Adam", 16, each) for at, each in enumerate(gpus))
    return MapVariable("norm/mean", (4,), "float32", 16, False, gpus[0], tuple(gpus), slots, VARIABLES)


def _map(
    tasks: int,
    clones: int,
    ops: list[MapOp],
    links: list[MapTransfer],
    variables: list[MapVariable],
    scopes: list[str],
) -> PlacementMap:
    plan = plan_of(tasks, clones)
    devices = [
        MapDevice(
            each.ref, plan.tensorflow_device(each), 0, 0, 0, other_bytes=12 if each.ref == SERVER else 0
        )
        for each in plan.topology.devices
    ]
    places = [(task, at) for task in range(tasks) for at in range(clones)]
    order = {each.ref: at for at, each in enumerate(devices)}
    return PlacementMap(
        spec=MapSpec("a.tfdeploy", "0" * 64),
        tensorflow="2.21.0",
        mode=MapMode("sync", "in_graph", "add_n", "mean", tasks * clones),
        devices=tuple(devices),
        clones=tuple(
            MapClone(number, scope, (gpu(*place),), 4)
            for number, (place, scope) in enumerate(zip(places, scopes, strict=True))
        ),
        variables=tuple(variables),
        ops=tuple(ops),
        transfers=tuple(sorted(links, key=lambda each: (order[each.from_device], order[each.to_device]))),
        misplaced=(),
    )
