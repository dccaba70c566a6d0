"""Sums of gradients, as the files of `compiler/graph/aggregate` make them, written as records of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from compiler.shards import range_lengths
from compiler.suggest.steps.origin import shape_text
from compiler.time.work import Arrow, Signature, TimedOp
from compiler.topology import Device

_PAIR = 2
_INT = 4


@frozen
class Value:
    """A tensor that is made in a step.

    Attributes:
        op: The number of its op in the step.
        tensor: Its name.
        device: Where it is made.
        dtype: Its type.
        shape: Its shape.
        item: The bytes of an element.
    """

    op: int
    tensor: str
    device: Device
    dtype: str
    shape: tuple[int, ...]
    item: int

    @property
    def bytes(self) -> int:
        """Its bytes."""
        return prod(self.shape) * self.item

    @property
    def text(self) -> str:
        """Its type and shape, as signatures have them."""
        return shape_text(self.dtype, self.shape)


@define
class Writer:
    """Writes the ops of a step.

    Attributes:
        ops: The ops so far.
        arrows: What each of them waits for.
    """

    ops: list[TimedOp] = field(factory=list, repr=False)
    arrows: list[list[Arrow]] = field(factory=list, repr=False)

    def add(self, op: TimedOp) -> int:
        """Add an op; return its number."""
        self.ops.append(op)
        self.arrows.append([])
        return len(self.ops) - 1

    def wait(self, target: int, source: int, tensor: str = "", size: int = 0) -> None:
        """Let an op wait for another, or for a tensor of it.

        Args:
            target: The number of the op that waits.
            source: The number of the op that it waits for.
            tensor: The name of the tensor that it uses, or nothing.
            size: The bytes of this tensor.
        """
        self.arrows[target].append(Arrow(source, target, tensor, size))

    def make(
        self,
        kind: str,
        name: str,
        device: Device,
        inputs: Sequence[Value],
        shape: tuple[int, ...],
        *,
        constants: Sequence[tuple[int, ...]] = (),
        clone: int | None = None,
        moves: bool = True,
        work: int | None = None,
    ) -> Value:
        """Add an op that makes one tensor of others, and the constants that it needs besides.

        Args:
            kind: Its type.
            name: Its name.
            device: Where it runs.
            inputs: What it uses.
            shape: The shape of its result.
            constants: The shapes of the whole numbers that it takes besides.
            clone: The number of its clone, or None.
            moves: Whether it reads and writes its tensors, and does not only pass one on.
            work: Its operations; by default one for each element of its result.
        """
        like = inputs[0]
        scope = "/".join(name.split("/")[:2])
        extra = []
        for at, each in enumerate(constants):
            signature = Signature("Const", (shape_text("int32", each),))
            number = self.add(TimedOp(f"{name}/{at}", signature, device, 0, 0, clone=clone, scope=scope))
            extra.append(Value(number, f"{name}/{at}:0", device, "int32", each, _INT))
        elements = prod(shape)
        size = sum(each.bytes for each in (*inputs, *extra)) + elements * like.item if moves else 0
        count = (elements if work is None else work) if moves else 0
        signature = Signature(kind, tuple(each.text for each in (*inputs, *extra)))
        number = self.add(TimedOp(name, signature, device, count, size, clone=clone, scope=scope))
        for value in (*inputs, *extra):
            self.wait(number, value.op, value.tensor, value.bytes)
        return Value(number, f"{name}:0", device, like.dtype, shape, like.item)

    def split(
        self, name: str, value: Value, shapes: Sequence[tuple[int, ...]], clone: int | None = None
    ) -> list[Value]:
        """Add an op that cuts a tensor.

        Args:
            name: The name of the op.
            value: The tensor.
            shapes: The shapes of the parts, in order.
            clone: The number of the clone of the op, or None.

        Returns:
            The parts.
        """
        cut = self.make(
            "SplitV", name, value.device, [value], value.shape, constants=((len(shapes),), ()), clone=clone
        )
        return [evolve(cut, tensor=f"{name}:{at}", shape=each) for at, each in enumerate(shapes)]

    def reshape(self, name: str, value: Value, shape: tuple[int, ...]) -> Value:
        """Add an op that gives a tensor another shape.

        Args:
            name: The name of the op.
            value: The tensor.
            shape: The new shape, with as many elements.
        """
        return self.make(
            "Reshape", name, value.device, [value], shape, constants=((len(shape),),), moves=False
        )


@frozen
class Reduction:
    """Values of one shape, one for each clone, that are to be summed.

    Attributes:
        name: The weight or piece.
        values: The value of each clone.
        destinations: The devices that need the sum.
        number: Its number among those of a step.
    """

    name: str
    values: tuple[Value, ...]
    destinations: tuple[Device, ...]
    number: int

    def add(self, writer: Writer, device: Device, values: Sequence[Value], name: str) -> Value:
        """Write the sum of some values; a single one is its own sum.

        Args:
            writer: Writes the ops of the step.
            device: The device of the sum.
            values: The values, of one shape.
            name: The name of the op.
        """
        if len(values) == 1:
            return values[0]
        shape = values[0].shape
        work = (len(values) - 1) * prod(shape)
        return writer.make("AddN", f"aggregate/{self.name}/{name}", device, values, shape, work=work)

    def copy(self, writer: Writer, device: Device, value: Value, name: str = "copy") -> Value:
        """Write a copy of a value on another device.

        Args:
            writer: Writes the ops of the step.
            device: The device that needs the value.
            value: The value.
            name: The name of the op.

        Returns:
            The value itself if it is on this device.
        """
        if value.device == device:
            return value
        return writer.make(
            "Identity", f"aggregate/{self.name}/{name}", device, [value], value.shape, moves=False
        )


Algorithm: TypeAlias = Callable[[Writer, Reduction, Mapping[str, int]], list[Value]]


def add_n(writer: Writer, sums: Reduction, options: Mapping[str, int]) -> list[Value]:
    """Write a sum by one op.

    Args:
        writer: Writes the ops of the step.
        sums: The values, and the devices that need the sum.
        options: Not used; every algorithm takes the options of its call.

    Returns:
        The sum for each of the devices that need it.
    """
    del options
    first = sums.destinations[0]
    total = sums.add(writer, first, sums.values, "add_n")
    return [sums.copy(writer, each, total) for each in sums.destinations]


def tree(writer: Writer, sums: Reduction, options: Mapping[str, int]) -> list[Value]:
    """Write sums of pairs, of pairs of these, and so on.

    Args:
        writer: Writes the ops of the step.
        sums: The values, and the devices that need the sum.
        options: Not used; every algorithm takes the options of its call.

    Returns:
        The sum for each of the devices that need it.
    """
    del options
    values, ranks = list(sums.values), list(range(len(sums.values)))
    homes = [each.device for each in sums.values]
    one = sums.destinations[0] if len(sums.destinations) == 1 else None
    levels: list[list[tuple[int, int]]] = []
    while len(ranks) > 1:
        pairs = list(zip(ranks[::2], ranks[1::2], strict=False))
        for first, second in pairs:
            place = one if one is not None and len(ranks) == _PAIR else homes[first]
            name = f"level_{len(levels)}/pair_{first}"
            values[first] = sums.add(writer, place, [values[first], values[second]], name)
        levels.append(pairs)
        ranks = ranks[::2]
    if one is not None:
        return [values[0]]
    found = {0: sums.copy(writer, sums.destinations[0], values[0])}
    for pairs in reversed(levels):
        for first, second in pairs:
            found[second] = sums.copy(writer, sums.destinations[second], found[first])
    return [found[at] for at in range(len(sums.destinations))]


def hierarchical(writer: Writer, sums: Reduction, options: Mapping[str, int]) -> list[Value]:
    """Write sums within groups of neighbours, and then between the groups.

    Args:
        writer: Writes the ops of the step.
        sums: The values, and the devices that need the sum.
        options: `size` is the number of devices in a group, if it is given.

    Returns:
        The sum for each of the devices that need it.
    """
    homes = [each.device for each in sums.values]
    groups = _groups(homes, options.get("size"))
    mains = [ranks[sums.number % len(ranks)] for ranks in groups]
    one = sums.destinations[0] if len(sums.destinations) == 1 else None
    place = one if one is not None else homes[mains[sums.number % len(groups)]]
    if len(groups) == 1:
        total = sums.add(writer, place, sums.values, "total")
    else:
        inner = [
            sums.add(writer, homes[main], [sums.values[rank] for rank in ranks], f"group_{at}")
            for at, (main, ranks) in enumerate(zip(mains, groups, strict=True))
        ]
        total = sums.add(writer, place, inner, "total")
    if one is not None:
        return [total]
    found: dict[int, Value] = {}
    for main, ranks in zip(mains, groups, strict=True):
        found[main] = sums.copy(writer, sums.destinations[main], total)
        for rank in ranks:
            if rank != main:
                found[rank] = sums.copy(writer, sums.destinations[rank], found[main])
    return [found[rank] for rank in range(len(found))]


def _groups(devices: Sequence[Device], size: int | None) -> list[list[int]]:
    hosts: dict[object, list[Device]] = {}
    for device in dict.fromkeys(devices):
        hosts.setdefault(device.host, []).append(device)
    width = size if size is not None else _PAIR if len(hosts) == 1 else len(devices)
    groups = [there[at : at + width] for there in hosts.values() for at in range(0, len(there), width)]
    return [[rank for rank, device in enumerate(devices) if device in group] for group in groups]


def shuffle(writer: Writer, sums: Reduction, options: Mapping[str, int]) -> list[Value]:
    """Write sums of ranges on the devices of the clones in turn.

    Args:
        writer: Writes the ops of the step.
        sums: The values, and the devices that need the sum.
        options: `shards` is the number of ranges, which is otherwise that of the clones.

    Returns:
        The sum for each of the devices that need it.
    """
    size = len(sums.values)
    pieces = [
        _cut(writer, sums, rank, value, options.get("shards") or size)
        for rank, value in enumerate(sums.values)
    ]
    homes = [each.device for each in sums.values]
    parts = [
        sums.add(writer, homes[(sums.number + at) % size], shard, f"shard_{at}")
        for at, shard in enumerate(zip(*pieces, strict=True))
    ]
    return [_glue(writer, sums, at, device, parts) for at, device in enumerate(sums.destinations)]


def _cut(writer: Writer, sums: Reduction, rank: int, value: Value, count: int) -> list[Value]:
    lengths = range_lengths(prod(value.shape), count)
    name = f"aggregate/{sums.name}/cut_{rank}"
    flat = writer.reshape(f"{name}/flat", value, (prod(value.shape),))
    return writer.split(f"{name}/cut", flat, [(each,) for each in lengths]) if len(lengths) > 1 else [flat]


def _glue(writer: Writer, sums: Reduction, at: int, device: Device, parts: Sequence[Value]) -> Value:
    name, like = f"aggregate/{sums.name}/glue_{at}", sums.values[0]
    flat = parts[0]
    if len(parts) > 1:
        flat = writer.make("ConcatV2", f"{name}/joined", device, parts, (prod(like.shape),), constants=((),))
    return writer.reshape(f"{name}/whole", evolve(flat, device=device), like.shape)


def ring(writer: Writer, sums: Reduction, options: Mapping[str, int]) -> list[Value]:
    """Write a ring: each clone adds its range to what its neighbour sends, and then passes the sums on.

    Args:
        writer: Writes the ops of the step.
        sums: The values, and the devices that need the sum.
        options: Not used; every algorithm takes the options of its call.

    Returns:
        The sum for each of the devices that need it.
    """
    del options
    size = len(sums.values)
    homes = [each.device for each in sums.values]
    cuts = [_cut(writer, sums, rank, value, size) for rank, value in enumerate(sums.values)]
    pieces = [dict(enumerate(each)) for each in cuts]
    for tick in range(size - 1):
        for rank in range(size):
            piece, before = (rank - 1 - tick) % size, (rank - 1) % size
            if piece in pieces[rank]:
                addends = [pieces[before][piece], pieces[rank][piece]]
                pieces[rank][piece] = sums.add(writer, homes[rank], addends, f"tick_{tick}/add_{rank}")
    if len(sums.destinations) == 1:
        whole = [pieces[(piece - 1) % size][piece] for piece in sorted(pieces[0])]
        return [_glue(writer, sums, 0, sums.destinations[0], whole)]
    for tick in range(size - 1):
        for rank in range(size):
            piece, before = (rank - tick) % size, (rank - 1) % size
            if piece in pieces[rank]:
                name = f"tick_{size - 1 + tick}/copy_{rank}"
                pieces[rank][piece] = sums.copy(writer, homes[rank], pieces[before][piece], name)
    ordered = [[each[piece] for piece in sorted(each)] for each in pieces]
    return [_glue(writer, sums, at, device, ordered[at]) for at, device in enumerate(sums.destinations)]


ALGORITHMS: dict[str, Algorithm] = {
    "add_n": add_n,
    "tree": tree,
    "hierarchical": hierarchical,
    "ring": ring,
    "shuffle": shuffle,
}
"""The algorithms. TensorFlow's collectives are not among them: a forecast does not see what they send."""


def sum_all(
    writer: Writer,
    reductions: Sequence[Reduction],
    algorithm: Algorithm,
    options: Mapping[str, int],
    pack: int | None,
) -> list[list[Value]]:
    """Write all sums; return for each of them its value at each destination.

    Args:
        writer: Writes the step.
        reductions: What is to be summed, in the order in which it is made.
        algorithm: The algorithm.
        options: Its arguments.
        pack: The bytes of buckets, or None.
    """
    if pack is None or not reductions or len(reductions[0].values) == 1:
        return [_summed(writer, each, algorithm, options) for each in reductions]
    found: dict[int, list[Value]] = {}
    for number, members in enumerate(_buckets(reductions, pack)):
        parts = [reductions[at] for at in members]
        if len(parts) == 1:
            found[members[0]] = _summed(writer, parts[0], algorithm, options)
            continue
        name = f"bucket_{number}"
        packed = tuple(_packed(writer, parts, rank, name) for rank in range(len(parts[0].values)))
        bucket = Reduction(name, packed, parts[0].destinations, number)
        totals = [
            _unpacked(writer, parts, at, total, bucket)
            for at, total in enumerate(_summed(writer, bucket, algorithm, options))
        ]
        found |= dict(zip(members, [list(each) for each in zip(*totals, strict=True)], strict=True))
    return [found[at] for at in range(len(reductions))]


def _summed(writer: Writer, sums: Reduction, algorithm: Algorithm, options: Mapping[str, int]) -> list[Value]:
    if len(sums.values) == 1:
        return [sums.copy(writer, each, sums.values[0]) for each in sums.destinations]
    return algorithm(writer, sums, options)


def _buckets(reductions: Sequence[Reduction], size: int) -> list[list[int]]:
    """Return the members of each bucket, in the order of the last ones."""
    filling: dict[object, tuple[list[int], int]] = {}
    full: list[list[int]] = []
    for at, each in enumerate(reductions):
        first = each.values[0]
        if first.bytes >= size:
            full.append([at])
            continue
        kind = (first.dtype, tuple(value.device for value in each.values), each.destinations)
        members, held = filling.get(kind, ([], 0))
        if held + first.bytes > size:
            full.append(members)
            members, held = [], 0
        filling[kind] = ([*members, at], held + first.bytes)
    full += [members for members, _ in filling.values()]
    return sorted(full, key=lambda members: members[-1])


def _packed(writer: Writer, parts: Sequence[Reduction], rank: int, name: str) -> Value:
    scope = f"aggregate/{name}/pack_{rank}"
    flat = [
        writer.reshape(f"{scope}/Reshape_{at}", each.values[rank], (prod(each.values[rank].shape),))
        for at, each in enumerate(parts)
    ]
    whole = (sum(each.shape[0] for each in flat),)
    return writer.make("ConcatV2", f"{scope}/packed", flat[0].device, flat, whole, constants=((),))


def _unpacked(
    writer: Writer, parts: Sequence[Reduction], at: int, total: Value, bucket: Reduction
) -> list[Value]:
    name = f"aggregate/{bucket.name}/unpack_{at}"
    there = evolve(total, device=bucket.destinations[at])
    shapes = [each.values[0].shape for each in parts]
    cut = writer.split(f"{name}/cut", there, [(prod(each),) for each in shapes])
    return [
        writer.reshape(f"{name}/Reshape_{number}", piece, shape)
        for number, (piece, shape) in enumerate(zip(cut, shapes, strict=True))
    ]
