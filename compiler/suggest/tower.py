"""The split of a tower over the devices of its group, by the search of `compiler/search`.

A layer is one group of operators: its forward ops and its gradients, which follow them. Costs are those of
the forecast of time, so that a profile, or the table of hardware, says how long a layer and a transfer take.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate

from attrs import define, evolve, field

from compiler.plan import Tower
from compiler.search.problem import Operator, Workload
from compiler.search.search import search
from compiler.time.costs import Costs
from compiler.time.work import StepWork

REST = ""
"""What no rule for a layer moves: inputs, and what the gradients have in common. It is on `group[0]`."""

ROOM = 1 << 60
_FIXED = ("input", "ports", "gradients", "pipeline")


@define
class Layer:
    """A layer as the search sees it."""

    seconds: float = 0.0  # the time of its ops, forward and backward
    # The bytes of its outputs, which are kept until its gradients are computed, and of its variables.
    bytes: float = 0.0
    device: int = 0  # the number in the group of the device that most of its ops are on
    tensors: list[Tensor] = field(factory=list)  # what it sends to other layers


@define
class Tensor:
    """A tensor that other layers use."""

    name: str
    bytes: int
    backward: bool
    readers: dict[str, None] = field(factory=dict)


def read_layers(
    work: StepWork, costs: Costs, tower: Tower, variable_bytes: Mapping[str, int]
) -> dict[str, Layer]:
    """Return the layers of a tower."""
    of_op: dict[int, tuple[str, bool]] = {}
    names = [_parts(each.name, tower) for each in work.ops]
    forward = {parts[0] for parts in names if parts and parts[0] not in _FIXED and len(parts) > 1}
    layers = {REST: Layer()}
    for at, (op, parts) in enumerate(zip(work.ops, names, strict=True)):
        if not parts or op.clone != tower.index or op.device not in tower.devices:
            continue
        backward = parts[0] == "gradients"
        name = parts[1] if backward and len(parts) > 1 else parts[0]
        name = name if name in forward else REST
        of_op[at] = (name, backward)
        layer, cost = layers.setdefault(name, Layer()), costs.of(op)
        layer.seconds += cost.alone + cost.start
        layer.device = tower.devices.index(op.device)
    tensors: dict[tuple[int, str], Tensor] = {}
    for each in work.arrows:
        if each.source in of_op and each.tensor:
            name, backward = of_op[each.source]
            key = (each.source, each.tensor)
            if key not in tensors:
                tensors[key] = Tensor(each.tensor, each.bytes, backward)
                layers[name].tensors.append(tensors[key])
                layers[name].bytes += 0 if backward else each.bytes
            reader = of_op.get(each.target, (name, False))[0]
            if reader != name:
                tensors[key].readers[reader] = None
    for variable, size in variable_bytes.items():
        owner = variable.partition("/")[0]
        layers[owner if owner in layers else REST].bytes += size
    return layers


def split_tower(
    layers: Mapping[str, Layer], costs: Costs, tower: Tower, *, by_bytes: bool, capacity: int
) -> dict[str, int]:
    """Search for the best device of each layer in the group of a tower.

    Args:
        by_bytes: Whether the memory of the fullest device is to be low, instead of the time of the
            busiest one.
        capacity: The memory of each device, in bytes.

    Returns:
        The number of the device of each layer in the group. The rest is on device 0.
    """
    source, target = tower.devices[0], tower.devices[-1]
    link = costs.link(source, target)
    numbers = {name: at for at, name in enumerate(layers)}
    operators = [
        Operator(name, each.bytes if by_bytes else each.seconds, 0.0, each.bytes, together=name)
        for name, each in layers.items()
    ]
    for name, layer in layers.items():
        for tensor in layer.tensors:
            if tensor.readers:
                readers = tuple(numbers[each] for each in tensor.readers)
                sends = 0.0 if by_bytes else link.latency + link.seconds(tensor.bytes)
                sending = Operator(tensor.name, sends=sends, readers=readers, backward=tensor.backward)
                operators.append(evolve(sending, together=name))
    workload = Workload(tuple(operators), len(tower.devices), min(capacity, ROOM), host=False)
    known = tuple(layers[str(each.together)].device for each in operators)
    found = search(workload, (known,))
    first = found.places[numbers[REST]]
    order = [first, *(each for each in range(len(tower.devices)) if each != first)]
    return {name: order.index(found.places[at]) for name, at in numbers.items()}


def balanced_stages(layers: Mapping[str, Layer], devices: int) -> dict[str, int]:
    """Return the stage of each layer, in an order to compute them, such that the longest stage is short."""
    names = [each for each in layers if each != REST]
    ends = [*accumulate((layers[each].seconds for each in names), initial=layers[REST].seconds)]
    best: list[tuple[float, tuple[int, ...]]] = [(each, ()) for each in ends]  # the longest, and the begins
    for _ in range(1, devices):
        best = [
            min((max(best[at][0], end - ends[at]), (*best[at][1], at)) for at in range(number + 1))
            for number, end in enumerate(ends)
        ]
    begins = best[-1][1]
    return {REST: 0, **{name: bisect_right(begins, at) for at, name in enumerate(names)}}


def rules_of(places: Mapping[str, int]) -> tuple[str, ...]:
    """Return the rules that put layers on devices of their group; what is on the first one needs none."""
    return tuple(f'ops("{name}/*") -> group[{device}]' for name, device in places.items() if device)


def variable_rules_of(places: Mapping[str, int], variables: Iterable[str]) -> tuple[str, ...]:
    """Return the rules that put variables on the device of their layer."""
    owners = {each.partition("/")[0] for each in variables}
    listed = [
        f'variables("{name}/*") -> group[{device}]'
        for name, device in places.items()
        if device and name in owners
    ]
    return ("variables -> group[0]", *listed)


def _parts(name: str, tower: Tower) -> list[str]:
    """Return the parts of the name of an op inside a tower; nothing for an op that is not in it."""
    scope = f"{tower.scope}/" if tower.scope else ""
    return tower.inner_name(name).split("/") if name.startswith(scope) else []
