"""Maps of clones on tasks, written down clone by clone, to hold against what is grown from a few."""

from __future__ import annotations

from attrs import evolve

from compiler.kinds.deployment.grid import MapGrid
from compiler.kinds.growing.workers import Workers
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
    MapWorker,
    PlacementMap,
    RuleRef,
)
from compiler.pipeline import make_plan
from compiler.plan import Plan
from tests.compiler.placement.places import MODEL
from tests.placement_maps import with_counts
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
    "aggregate/w/group_{task}",
    "clone_{clone}/grad/at_worker_0_gpu_{place}",
    "mail/w/worker_{task}/put",
    "mail/w/worker_{task}/take",
)
"""The names of things in these maps, with places for their numbers."""


def grid_of(tasks: int, clones: int) -> MapGrid:
    """Return the grid of tasks with equally many clones, one on each GPU."""
    return MapGrid("worker", "gpu", tasks, clones, 1)


def plan_of(tasks: int, clones: int) -> Plan:
    """Return a plan that has the devices of such a grid, and two servers."""
    jobs = f'job "ps" {{ tasks = 2 }}\n job "worker" {{ tasks = {tasks}, gpu = {clones} }}'
    return make_plan(spec_of(f"{MODEL}devices {{\n {jobs}\n}}\nclones {{ batch = 2 }}\n"))


def cpu(task: int) -> str:
    """Return the processor of a task."""
    return f"worker[{task}].cpu[0]"


def gpu(task: int, clone: int) -> str:
    """Return the device of a clone."""
    return f"worker[{task}].gpu[{clone}]"


def map_of(tasks: int, clones: int, *, summed: bool = False, named: int = LARGEST) -> PlacementMap:
    """Return the map of clones that share a graph.

    Args:
        tasks: The number of tasks with clones.
        clones: The number of clones on each.
        summed: Whether the clones of a task are summed on its second GPU; otherwise one of the variables has
            a copy for each clone.
        named: How many of the tensors are named that a server sends of all clones.
    """
    places = [(task, at) for task in range(tasks) for at in range(clones)]
    numbers = {place: number for number, place in enumerate(places)}
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
        ]
        if not summed:
            ops.append(_op(f"{name}/mean", "Mul", "read", gpu(task, at), _follows(_copy(number)), number))
    if summed:
        ops += [_op(_sum(each), "AddN", "aggregate", gpu(each, 1), CLONES) for each in range(tasks)]
    ops.append(_op("update/apply", "AssignSub", "update", SERVER, _follows("w")))
    links = [_link(SERVER, gpu(*each), {f"clone_{number}/w/read:0": 64}) for each, number in numbers.items()]
    links += [_link(cpu(each[0]), gpu(*each), {f"{pipe(each[0])}:0": 16}) for each in places]
    parts = {f"clone_{number}/part:0": 8 for number in numbers.values()}
    links.append(_link(SERVER, OTHER, parts, named=named))
    for (task, at), number in numbers.items():
        target = gpu(task, 1) if summed else SERVER
        if gpu(task, at) != target:
            links.append(_link(gpu(task, at), target, {f"clone_{number}/grad:0": 40}, unknown=1))
    if summed:
        links += [_link(gpu(each, 1), SERVER, {f"{_sum(each)}:0": 24}) for each in range(tasks)]
    copied = [] if summed else [_copied(list(map(gpu, *zip(*places, strict=True))))]
    scopes = [f"clone_{number}" for number in numbers.values()]
    return with_counts(_map(tasks, clones, ops, links, [_shared(), *copied], scopes))


def map_of_worker(tasks: int, clones: int) -> PlacementMap:
    """Return the map of workers of which each has a graph of its own; the ops of the first are listed."""
    everybody = [_op("w", "VarHandleOp", "variable", SERVER, VARIABLES)]
    everybody += [
        _op(f"clone_{at}/w/read", "ReadVariableOp", "read", SERVER, _follows("w"), at) for at in range(clones)
    ]
    everybody.append(_op("mail/w/worker_0/put", "AssignVariableOp", "aggregate", SERVER, _follows("w")))
    own = [_op("input/next", "IteratorGetNext", "input", cpu(0), _of_task(0))]
    own += [_op(f"clone_{at}/MatMul", "MatMul", "forward", gpu(0, at), CLONES, at) for at in range(clones)]
    chief = [
        _op(f"mail/w/worker_{each}/take", "ReadVariableOp", "aggregate", SERVER, _follows("w"))
        for each in range(tasks)
    ]
    chief.append(_op("update/apply", "AssignSub", "update", SERVER, _follows("w")))
    ops = [everybody[0], own[0]]
    for read, product in zip(everybody[1:-1], own[1:], strict=True):
        ops += [read, product]
    ops += [everybody[-1], *chief]
    links = [*_sent(0, clones, of_chief=True)]
    links += [each for task in range(1, tasks) for each in _sent(task, clones)[:-1]]
    between, other = links[3 * clones], _sent(1, clones)[-1]
    links[3 * clones] = evolve(
        between,
        tensors=between.tensors + (tasks - 1) * other.tensors,
        bytes=between.bytes + (tasks - 1) * other.bytes,
        bytes_unknown=(tasks - 1) * other.bytes_unknown,
    )
    scopes = [f"clone_{at}" for at in range(clones)] * tasks
    found = _map(tasks, clones, ops, links, [_shared()], scopes)
    on_server = len(everybody) * tasks + len(chief)
    counted = with_counts(found).devices
    devices = (
        evolve(counted[0], ops=on_server, other_bytes=12 + 40 * tasks),
        *(evolve(each, ops=0 if each.ref == OTHER else 1) for each in counted[1:]),
    )
    workers = tuple(
        MapWorker(f"worker:{task}", tuple(range(task * clones, task * clones + clones)), task == 0)
        for task in range(tasks)
    )
    return evolve(found, devices=devices, workers=workers)


def few_workers(clones: int) -> tuple[PlacementMap, Workers]:
    """Return the map of two workers with the transfers of the first, and what is known of the second."""
    found = map_of_worker(2, clones)
    of_chief = {each.name for each in found.ops if each.name.endswith(("/take", "/apply"))}
    sent = tuple(_sent(0, clones))
    few = evolve(found, transfers=tuple(_sent(0, clones, of_chief=True)))
    return few, Workers(frozenset(of_chief), sent, {SERVER: 40})


def pipe(task: int) -> str:
    """Return the name of the op that gets the examples of a task."""
    return f"input/{task}/next" if task else "input/next"


def _copy(number: int) -> str:
    return f"norm/mean/replica_{number}" if number else "norm/mean"


def _sum(task: int) -> str:
    return f"aggregate/w/group_{task}"


def _follows(name: str) -> RuleRef:
    return RuleRef("a.tfdeploy", 9, 3, name, "follows", VARIABLES.text)


def _of_task(task: int) -> RuleRef:
    return RuleRef(None, None, None, f"inputs -> {cpu(task)}", "default")


def _op(name: str, kind: str, role: str, device: str, rule: RuleRef, clone: int | None = None) -> MapOp:
    return MapOp(name, kind, clone, role, device, None, rule)


def _link(
    source: str, target: str, tensors: dict[str, int], unknown: int = 0, named: int = LARGEST
) -> MapTransfer:
    ranked = sorted(tensors.items(), key=lambda each: (-each[1], each[0]))[:named]
    largest = tuple(MapTensor(name, size) for name, size in ranked)
    return MapTransfer(source, target, len(tensors) + unknown, sum(tensors.values()), unknown, largest)


def _sent(task: int, clones: int, *, of_chief: bool = False) -> list[MapTransfer]:
    """Return what a worker sends, by the names in its own graph; between the servers at the end."""
    found = []
    for at in range(clones):
        device = gpu(task, at)
        gradient = {f"clone_{at}/grad/at_worker_0_gpu_{at}:0": 40 if of_chief else 50}
        found += [
            _link(SERVER, device, {f"clone_{at}/w/read:0": 64}),
            _link(cpu(task), device, {"input/next:0": 16}),
            _link(device, SERVER, gradient),
        ]
    found.append(_link(SERVER, OTHER, {"part:0": 8 if of_chief else 4}, unknown=0 if of_chief else 1))
    return found


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
