"""How examples enter the graph and reach the towers: iterators on input devices, and the part of each tower.

An iterator knows only types and shapes. The dataset is attached when it is needed, so that a graph can be
built, inspected and saved on a machine without the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.adapters.tensorflow_private import iterator_resource, variant_of
from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.ledger import Ledger
from compiler.model.graph import InputNode
from compiler.plan import Plan, Tower, WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import Run, Tensor
from compiler.step.values import StagingArea
from compiler.step.writer import Spot
from compiler.towers import name_of, readers_of


@define
class InputPipe:
    """An iterator over batches, and the tensors that it gives."""

    wanted: tuple[InputNode, ...]
    placed: Placed
    ledger: Ledger = field(repr=False)
    iterator: Any = field(repr=False)
    batch: Mapping[str, Any] = field(repr=False)
    # The number of examples that each batch of its dataset must have, or None for any number.
    size: int | None = None
    # The seconds that a step then waits: one scalar, or one for each clone if each draws by itself. Only
    # steps that fetch them measure the time.
    waits: list[Any] = field(factory=list, repr=False)
    name: str = "input"
    shard: tuple[int, int] | None = None  # (index, of how many) if it reads only a part of the data
    reader: str = ""  # who reads it in words, if it reads only a part of the data
    examples: int = 0
    graph: tf.Graph = field(default=None, repr=False)
    # The ops to run once when the data is attached, which fill the staging areas of towers.
    puts: list[Any] = field(factory=list, repr=False)
    clears: list[Any] = field(factory=list, repr=False)  # the ops to run before that, which empty these areas

    def attach(self, make_dataset: Callable[[], tf.data.Dataset]) -> tf.Operation:
        """Connect a dataset; return the op that starts it.

        Args:
            make_dataset: Makes the dataset in the graph. Its elements are dicts of batched tensors by the
                names of the model's inputs.
        """
        with self.graph.as_default(), self.ledger.place(self.placed, "input"):
            dataset = make_dataset()
            with tf.control_dependencies(self.clears):
                return tf.raw_ops.MakeIterator(dataset=variant_of(dataset), iterator=self.iterator)

    def at(self, clone: int | None = None) -> Spot:
        """Return where its ops are written, or those for a clone."""
        scope = self.name if clone is None else f"{self.name}/clone_{clone}"
        return Spot(self.ledger.writer("input"), scope, self.placed)

    def draw(self, at: Spot) -> dict[str, Tensor]:
        """Write what takes the next batch; return its tensors."""
        return _next(at, self.wanted, self.size, self.iterator)


def _next(at: Spot, wanted: Sequence[InputNode], batch: int | None, iterator: Tensor) -> dict[str, Tensor]:
    """Write what takes the next batch of an iterator; return its tensors by the names of the inputs."""
    names, types, shapes = _kinds(wanted, batch)
    made = list(zip(types, shapes, strict=True))
    told = {"output_types": types, "output_shapes": shapes}
    drawn = at.writer.write("IteratorGetNext", at.name("next"), (iterator,), at.placed, told, made=made)
    found = dict(zip(names, drawn, strict=True))
    return {each.name: found[each.name] for each in wanted}


def _kinds(
    wanted: Sequence[InputNode], batch: int | None
) -> tuple[list[str], list[str], list[tuple[int | None, ...]]]:
    """Return the names of inputs in the order in which iterators have them, their types, and shapes."""
    nodes = sorted(wanted, key=lambda each: each.name)
    shapes = [(batch, *each.shape) for each in nodes]
    return [each.name for each in nodes], [each.dtype for each in nodes], shapes


def open_pipe(
    wanted: Sequence[InputNode], batch: int | None, placed: Placed, ledger: Ledger, name: str
) -> InputPipe:
    """Make an iterator for batches of a number of examples, or of any number if it is None."""
    at = Spot(ledger.writer("input"), name, placed)
    names, types, shapes = _kinds(wanted, batch)

    def iterator() -> tf.Tensor:
        kinds = dict(zip(names, map(tf.as_dtype, types), strict=True))
        sizes = dict(zip(names, map(tf.TensorShape, shapes), strict=True))
        return iterator_resource(tf.compat.v1.data.Iterator.from_structure(kinds, sizes))

    handle = write_traced(at, iterator)
    batches = _next(at, wanted, batch, handle)
    return InputPipe(tuple(wanted), placed, ledger, handle, batches, batch, name=name)


def split_batch(pipe: InputPipe, sizes: Sequence[int]) -> list[dict[str, Tensor]]:
    """Split the pipe's global batch into consecutive pieces of `sizes` examples, one for each clone."""
    if len(sizes) == 1:
        return [dict(pipe.batch)]
    pieces = write_traced(pipe.at(), _split, pipe.batch, sizes=tuple(sizes))
    return [{name: parts[clone] for name, parts in pieces.items()} for clone in range(len(sizes))]


def _split(batch: Mapping[str, tf.Tensor], sizes: Sequence[int]) -> dict[str, list[tf.Tensor]]:
    return {name: tf.split(each, list(sizes), name=f"split/{name}") for name, each in batch.items()}


def _cut(piece: Mapping[str, tf.Tensor], count: int) -> dict[str, tf.Tensor]:
    return {name: _in_parts(each, count, f"micro_batches/{name}") for name, each in piece.items()}


def _in_parts(tensor: tf.Tensor, count: int, name: str) -> tf.Tensor:
    """Give a tensor a first axis of `count` equal parts."""
    sizes = tensor.shape.as_list()
    wanted = [count, sizes[0] // count, *sizes[1:]]
    if None not in sizes:
        return tf.reshape(tensor, wanted, name=name)
    now = tf.unstack(tf.shape(tensor))
    cut = tf.reshape(tensor, [*wanted[:2], *now[1:]], name=name)
    cut.set_shape(wanted)
    return cut


def draw_batches(pipe: InputPipe, sizes: Sequence[int]) -> list[dict[str, Tensor]]:
    """Let every clone draw from the pipe by itself: a clone that is ready gets the next ones of the stream.

    A clone's batch is made of as many batches of the pipe as fill its size.
    """
    assert pipe.size is not None
    drawn = []
    for clone, size in enumerate(sizes):
        at, parts = pipe.at(clone), list[Mapping[str, Tensor]]()
        for number in range(size // pipe.size):
            first = clone == number == 0
            after = [each.op for each in parts[-1].values()] if parts else []
            parts.append(pipe.batch if first else pipe.draw(at.waiting(dict.fromkeys(after))))
        drawn.append(_joined(pipe, at, parts))
    return drawn


def _joined(pipe: InputPipe, at: Spot, parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    if len(parts) == 1:
        return dict(parts[0])
    padding = tuple((each.name, each.padding) for each in pipe.wanted if each.free)
    return write_traced(at, _together, parts, padding=padding)


def _together(
    parts: Sequence[Mapping[str, tf.Tensor]], padding: Sequence[tuple[str, float]]
) -> dict[str, tf.Tensor]:
    """Return batches as one, filled up in inputs that have axes without a fixed size."""
    joined, filling = {}, dict(padding)
    for name in parts[0]:
        tensors = [each[name] for each in parts]
        if name in filling:
            tensors = _of_one_size(tensors, filling[name])
        joined[name] = tf.concat(tensors, 0, name=name)
    return joined


def _of_one_size(tensors: Sequence[tf.Tensor], padding: float) -> list[tf.Tensor]:
    """Return tensors filled up behind to the largest of their sizes along all axes but the first.

    Args:
        padding: What its batches are filled with; texts are filled with empty ones.
    """
    value = tf.constant("" if tensors[0].dtype == tf.string else padding, tensors[0].dtype)
    sizes = [tf.shape(each) for each in tensors]
    largest = tf.reduce_max(tf.stack(sizes), 0)
    filled = []
    for tensor, size in zip(tensors, sizes, strict=True):
        more = tf.concat([[0], (largest - size)[1:]], 0)
        each = tf.pad(tensor, tf.stack([tf.zeros_like(more), more], 1), constant_values=value)
        each.set_shape(tensor.shape)
        filled.append(each)
    return filled


Piece = Mapping[str, Tensor]


@frozen
class Awaited:
    """A batch for which some clones wait together."""

    pipe: InputPipe
    at: Spot
    batch: Piece
    clones: Sequence[int]


@define
class Feeds:
    """All pipes of a graph."""

    pipes: list[InputPipe] = field(factory=list)
    pieces: dict[int, Piece] = field(factory=dict)  # for each tower, its part of a batch
    ahead: set[int] = field(factory=set)  # the towers whose next batches are copied to their devices ahead
    awaited: list[Awaited] = field(factory=list)  # for what the waiting can be measured
    # For each tower, the seconds that it waited for its batch, if they are measured.
    waits: dict[int, Tensor] = field(factory=dict)


def feed_towers(assembly: Assembly) -> Feeds:
    """Make the pipes of a graph, and split their batches among the towers."""
    plan, feeds = assembly.plan, Feeds()
    for number, group in enumerate(readers_of(plan)):
        sizes = [tower.batch * plan.micro_batches for tower in group.towers]
        size = gcd(*sizes) if plan.clones_update_alone else sum(sizes)
        name = f"input/{number}" if number else "input"
        pipe = open_pipe(plan.model.inputs, size, group.placed, assembly.ledger, name)
        pipe.shard, pipe.reader, pipe.examples = group.shard, name_of(group, plan), sum(sizes)
        clones = [tower.index for tower in group.towers]
        if plan.clones_update_alone:
            pieces = draw_batches(pipe, sizes)
            awaited = [Awaited(pipe, pipe.at(at), pieces[at], [each]) for at, each in enumerate(clones)]
        else:
            pieces, awaited = split_batch(pipe, sizes), [Awaited(pipe, pipe.at(), pipe.batch, clones)]
        if group.placed.device.kind == "cpu":  # GPUs have no op for the time
            feeds.awaited += awaited
        if plan.micro_batches > 1:  # each gets a first axis of consecutive micro-batches
            pieces = [
                write_traced(pipe.at(at), _cut, piece, count=plan.micro_batches)
                for at, piece in enumerate(pieces)
            ]
        feeds.pipes.append(pipe)
        for tower, piece in zip(group.towers, pieces, strict=True):
            feeds.pieces[tower.index] = _ahead(assembly, feeds, pipe, tower, piece)
    return feeds


def _ahead(assembly: Assembly, feeds: Feeds, pipe: InputPipe, tower: Tower, piece: Piece) -> Piece:
    """Return the batch of a tower: its piece, or what was copied to its device in the step before."""
    if not is_staged(assembly.plan, tower, pipe.placed, piece):
        return piece
    staged = stage(tower, pipe.placed, piece, assembly.ledger)
    pipe.puts.append(staged.put)
    pipe.clears += staged.clears
    feeds.ahead.add(tower.index)
    return staged.piece


# --- batches that are copied to GPUs one step ahead -------------------------------------------------------
#
# Beside each tower there is a staging area. A step takes from it what the step before has put there, and puts
# in the next batch. The first `put` is made when the data is attached.
#
# No op ever waits until an area is filled, because that would hold a thread that the filling may need. With
# the examples, a ticket is put last into an area on the host, and is taken first. If there is no ticket,
# the step takes after its own putting, otherwise at the same time. Whatever is fetched of a tower therefore
# also puts the next batch in. Whole numbers, as labels and indices are, and strings stay on the host with
# the tickets: they are small, and look-ups of embeddings need indices beside the table.


HOST = frozenset({"int32", "int64", "uint32", "uint64", "string"})


@frozen
class Staged:
    """The staged batch of a tower."""

    piece: Mapping[str, Tensor]  # the tensors that the tower uses instead of its piece
    put: Run
    clears: tuple[Run, ...]  # the ops that empty the areas


def is_staged(plan: Plan, tower: Tower, source: Placed, piece: Mapping[str, Tensor]) -> bool:
    """Whether a tower gains by a batch ahead: it is on a GPU, and there is something to copy.

    Workers with graphs of their own do their steps in several runs, and have no batch ahead.
    """
    away = tower.device.kind == "gpu" and source.device != tower.device
    alone = not isinstance(plan, WorkerPlan)
    return away and alone and any(each.dtype not in HOST for each in piece.values())


def stage(tower: Tower, source: Placed, piece: Mapping[str, Tensor], ledger: Ledger) -> Staged:
    """Put staging areas between a tower and its piece."""
    scope, name = tower.op_name("input"), f"tfdeploy/clone_{tower.number}"
    writer, ticket = ledger.writer("input"), "ticket"
    on_host = Spot(writer, f"{scope}/tickets", source)
    beside = Spot(writer.on("input", tower.index), f"{scope}/ahead", Placed(tower.device, tower.reason))
    host = {key: each for key, each in piece.items() if each.dtype in HOST}
    host[ticket] = writer.constant(on_host.name(ticket), True, "bool", source)
    tickets = StagingArea(f"{name}/tickets", [*host.values()], on_host)
    away = {key: each for key, each in piece.items() if each.dtype not in HOST}
    ahead = StagingArea(f"{name}/ahead", [*away.values()], beside)
    put = tickets.put([ahead.put()])
    taken = dict(zip(host, tickets.take([_ready(tickets, put).op]), strict=True))
    clears = [tickets.clear()]
    taken |= zip(away, ahead.take([taken[ticket].op]), strict=True)
    clears.append(ahead.clear())
    return Staged({key: taken[key] for key in piece}, Run(put), tuple(clears))


def _ready(tickets: StagingArea, put: str) -> Tensor:
    """Return a tensor that exists at once if there is a ticket, and else after `put`."""
    at = tickets.at
    (filled,) = at.op("Greater", "Greater", tickets.size(), 0)
    empty, full = at.op("Switch", "has_one", filled, filled)
    (refilled,) = at.waiting([put]).op("Identity", "refilled", empty)
    return at.op("Merge", "ready", full, refilled)[0]


def measure_waits(feeds: Feeds, updates: Sequence[Run]) -> None:
    """Write what measures for how long clones wait for their batches, in steps that fetch it.

    If a batch is copied ahead, waiting begins when the update of its clone is done: no time is lost before.

    Args:
        updates: The update of each clone, or that of all; none if the model is not trained.
    """
    for each in feeds.awaited:
        ahead = sorted(feeds.ahead.intersection(each.clones)) if updates else ()
        ends = dict.fromkeys(updates[min(clone, len(updates) - 1)].name for clone in ahead)
        (asked,) = each.at.waiting(ends).op("Timestamp", "asked")
        there = dict.fromkeys(tensor.op for tensor in each.batch.values())
        (given,) = each.at.waiting(there).op("Timestamp", "given")
        (waited,) = each.at.op("Sub", "waited", given, asked)
        each.pipe.waits.append(waited)
        feeds.waits |= dict.fromkeys(each.clones, waited)
