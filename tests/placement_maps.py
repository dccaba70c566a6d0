"""Placement maps made by hand, for the views: small, large, and with names that try to break out."""

from collections.abc import Collection, Sequence

from attrs import evolve

from compiler.kinds.grid import MapGrid, Spot
from compiler.kinds.kind_map import KindMap
from compiler.kinds.kinds import (
    CloneKind,
    CopyKind,
    DeviceKind,
    MapKind,
    MapRange,
    OpKind,
    SlotKind,
    TransferKind,
    VariableKind,
)
from compiler.kinds.step_kinds import EdgeKind, StepKinds, StepOpKind
from compiler.kinds.templates import Template
from compiler.mapping.records import (
    MapAssumption,
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

SPEC = "train.tfdeploy"
CLONES = RuleRef(SPEC, 12, 3, "clones -> gpu[*]", "rule")
VARIABLES = RuleRef(SPEC, 13, 3, "variables -> cpu[0]", "rule")
INPUTS = RuleRef(None, None, None, "inputs -> cpu[0]", "default")

LAYERS = ("conv1", "logits")
TOWER = {"conv1": ("Conv2D", "BiasAdd", "Relu"), "logits": ("MatMul", "BiasAdd")}
KERNEL_BYTES = {"conv1": 1152, "logits": 20480}


Sent = tuple[str, str, str, int | None]
"""The names of two ops, and that of a tensor that one makes and the other uses, with its bytes."""

HANDLE = -1
"""The bytes of what only refers to a resource."""


def follows(name: str) -> RuleRef:
    """Return the reason of what follows the variable called `name`."""
    return RuleRef(SPEC, 13, 3, name, "follows", VARIABLES.text)


def make_map(clones: int = 2, *, host: str = "") -> PlacementMap:
    """Return the map of a two-layer model with a clone on each GPU and its variables on the CPU.

    `host` stands before each GPU's name, with `{}` for its number (`worker[{}].`).
    """
    gpus = [f"{host.format(at // 8)}gpu[{at % 8 if host else at}]" for at in range(clones)]
    ops = [*_shared_ops(), *(op for at in range(clones) for op in _tower(at, gpus[at], alone=clones == 1))]
    ops += [
        _op(f"update/{layer}/kernel/apply", "AssignSub", "update", "cpu[0]", follows(f"{layer}/kernel"))
        for layer in LAYERS
    ]
    return _whole(ops, gpus, clones)


def make_kinds(tasks: int = 64, clones: int = 8) -> KindMap:
    """Return the map of a layer with a clone on each GPU of each worker and its variable on a server."""
    first, others = MapRange(0, 0), (MapRange(1, tasks - 1), MapRange(1, clones - 1))
    number = tasks * clones
    kinds = (
        MapKind(None, None, 1),
        MapKind(first, first, 1),
        MapKind(first, others[1], clones - 1),
        MapKind(others[0], first, tasks - 1),
        MapKind(others[0], others[1], number - tasks - clones + 1),
    )
    server, gpu = "ps[0].cpu[0]", "worker[{task}].gpu[{device}]"
    slot = SlotKind(0, MapSlot("fc1/kernel/Adam", 64, server))
    variable = MapVariable("fc1/kernel", (4, 4), "float32", 64, True, server, (), (), VARIABLES)
    named = ("/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:{task}/device:GPU:{device}")
    starts = (0, 1, clones, clones + 1)
    grid = MapGrid("worker", "gpu", tasks, clones, 1)
    tower = range(1, 5)
    read = "clone_{clone}/fc1/kernel/read"
    return KindMap(
        spec=MapSpec("many.tfdeploy", "0" * 64),
        tensorflow="2.21.0",
        mode=MapMode("sync", "in_graph", "add_n", "mean", number),
        grid=grid,
        kinds=kinds,
        device_kinds=(
            DeviceKind(0, MapDevice(server, named[0], 2 + number, 64, 64)),
            *(DeviceKind(of, MapDevice(gpu, named[1], 1, 0, 0)) for of in tower),
        ),
        clone_kinds=tuple(
            CloneKind(of, MapClone(start, "clone_{clone}", (gpu,), 4))
            for of, start in zip(tower, starts, strict=True)
        ),
        variable_kinds=(VariableKind(variable, (CopyKind(1, gpu),), (slot,)),),
        op_kinds=(
            OpKind(0, _op("fc1/kernel", "VarHandleOp", "variable", server, VARIABLES)),
            OpKind(0, _op("fc1/kernel/Adam", "VarHandleOp", "variable", server, follows("fc1/kernel"))),
            *(
                each
                for of, start in zip(tower, starts, strict=True)
                for each in (
                    OpKind(of, _op(read, "ReadVariableOp", "read", server, CLONES, start)),
                    OpKind(of, _op("clone_{clone}/fc1/MatMul", "MatMul", "forward", gpu, CLONES, start)),
                )
            ),
        ),
        transfer_kinds=tuple(
            TransferKind(of, MapTransfer(server, gpu, 1, 64, 0, (MapTensor(f"{read}:0", 64),)))
            for of in tower
        ),
        assumptions=(MapAssumption("x", 0, 8, "`assume`"),),
    )


def _shared_ops() -> list[MapOp]:
    ops = [_op("input/IteratorGetNext", "IteratorGetNext", "input", "cpu[0]", INPUTS)]
    for layer in LAYERS:
        ops.append(_op(f"{layer}/kernel", "VarHandleOp", "variable", "cpu[0]", VARIABLES))
        ops.append(
            _op(f"{layer}/kernel/Adam", "VarHandleOp", "variable", "cpu[0]", follows(f"{layer}/kernel"))
        )
    return ops


def _tower(clone: int, gpu: str, *, alone: bool) -> list[MapOp]:
    scope = "" if alone else f"clone_{clone}/"
    ops = []
    for layer in LAYERS:
        ops.append(
            _op(
                f"{scope}{layer}/kernel/read",
                "ReadVariableOp",
                "read",
                "cpu[0]",
                follows(f"{layer}/kernel"),
                clone,
            )
        )
        ops += [_op(f"{scope}{layer}/{kind}", kind, "forward", gpu, CLONES, clone) for kind in TOWER[layer]]
    for layer in reversed(LAYERS):
        kind = TOWER[layer][0]
        ops.append(_op(f"{scope}gradients/{layer}/{kind}_grad", kind, "gradient", gpu, CLONES, clone))
    return ops


def _op(name: str, kind: str, role: str, device: str, rule: RuleRef, clone: int | None = None) -> MapOp:
    return MapOp(name, kind, clone, role, device, None, rule)


def _whole(ops: list[MapOp], gpus: list[str], clones: int) -> PlacementMap:
    kernels = sum(KERNEL_BYTES.values())
    links = [MapTransfer("cpu[0]", gpu, 3, kernels + 2048, 0) for gpu in gpus]
    links += [MapTransfer(gpu, "cpu[0]", 2, kernels, 1) for gpu in gpus]
    return with_counts(
        PlacementMap(
            spec=MapSpec(SPEC, "0" * 64),
            tensorflow="2.21.0",
            mode=MapMode("sync", "in_graph", "add_n", "mean", clones),
            devices=tuple(
                MapDevice(ref, f"/job:localhost/replica:0/task:0/device:{ref}", 0, 0, 0)
                for ref in ["cpu[0]", *gpus]
            ),
            clones=tuple(
                MapClone(at, "" if clones == 1 else f"clone_{at}", (gpu,), 32) for at, gpu in enumerate(gpus)
            ),
            variables=tuple(
                MapVariable(
                    name=f"{layer}/kernel",
                    shape=(3, 3, 1, 32) if layer == "conv1" else (512, 10),
                    dtype="float32",
                    bytes=KERNEL_BYTES[layer],
                    trainable=True,
                    device="cpu[0]",
                    copies=(),
                    slots=(MapSlot(f"{layer}/kernel/Adam", KERNEL_BYTES[layer], "cpu[0]"),),
                    rule=VARIABLES,
                )
                for layer in LAYERS
            ),
            ops=tuple(ops),
            transfers=tuple(links),
            misplaced=(),
        )
    )


def with_counts(placement: PlacementMap) -> PlacementMap:
    """Return the map with its devices' figures, and the misplaced ops, as its ops and variables have them."""
    slots = [slot for variable in placement.variables for slot in variable.slots]
    devices = tuple(
        evolve(
            each,
            ops=sum(op.requested == each.ref for op in placement.ops),
            variable_bytes=sum(
                variable.bytes for variable in placement.variables if variable.device == each.ref
            ),
            slot_bytes=sum(slot.bytes for slot in slots if slot.device == each.ref),
        )
        for each in placement.devices
    )
    misplaced = tuple(op for op in placement.ops if op.assigned not in (None, op.requested))
    return evolve(placement, devices=devices, misplaced=misplaced)


def step_among(placement: PlacementMap, edges: Sequence[Sent], names: Collection[str] = ()) -> StepKinds:
    """Return a step in which ops send each other tensors; `names` has others of its ops."""
    used = {end for source, target, *_ in edges for end in (source, target)} | {*names}
    ops = [each for each in placement.ops if each.name in used]
    numbers = {each.name: at for at, each in enumerate(ops)}
    return StepKinds(
        MapGrid(None, "cpu", 1, 1, 1),
        tuple(
            StepOpKind(Template((each.name,)), Template((each.requested,)), clone=each.clone) for each in ops
        ),
        tuple(
            EdgeKind(numbers[source], numbers[target], Spot(), Template((tensor,)), size, size == HANDLE)
            for source, target, tensor, size in edges
        ),
    )
