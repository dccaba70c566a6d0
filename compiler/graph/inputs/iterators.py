"""An iterator on the input device, whose batches are split into one piece for each clone.

The iterator knows only types and shapes. The dataset is attached when it is needed, so that a graph can be
built, inspected and saved on a machine without the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import iterator_resource, variant_of
from compiler.graph.fragments import write_traced
from compiler.graph.ledger import Ledger
from compiler.model.graph import InputNode
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.writer import Spot


@define
class InputPipe:
    """An iterator over batches, and the tensors that it gives.

    Attributes:
        wanted: The inputs of the model that it gives.
        placed: The place of the iterator.
        ledger: The ledger of the graph.
        iterator: The handle of the iterator.
        batch: Its tensors by the names of the inputs.
        size: The number of examples that each batch of its dataset must have, or None for any number.
        asked: The time at which a step asks for its batch, or None if it is not measured.
        waits: The seconds that a step then waits: one scalar, or one for each clone if each draws by itself.
            Only steps that fetch them measure the time.
        asks: For each of `waits` the time at which it begins, and itself.
        name: Its name in the graph.
        shard: (index, of how many) if it reads only a part of the data.
        reader: Who reads it in words, if it reads only a part of the data.
        examples: The number of examples that it gives in one step.
        graph: The graph, once there is one.
        puts: The ops to run once when the data is attached, which fill the staging areas of towers.
        clears: The ops to run before that, which empty these areas.
    """

    wanted: tuple[InputNode, ...]
    placed: Placed
    ledger: Ledger = field(repr=False)
    iterator: Any = field(repr=False)
    batch: Mapping[str, Any] = field(repr=False)
    size: int | None = None
    asked: Any = field(default=None, repr=False)
    waits: list[Any] = field(factory=list, repr=False)
    asks: list[tuple[Any, Any]] = field(factory=list, repr=False)
    name: str = "input"
    shard: tuple[int, int] | None = None
    reader: str = ""
    examples: int = 0
    graph: tf.Graph = field(default=None, repr=False)
    puts: list[Any] = field(factory=list, repr=False)
    clears: list[Any] = field(factory=list, repr=False)

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
    wanted: Sequence[InputNode],
    batch: int | None,
    placed: Placed,
    ledger: Ledger,
    name: str,
    *,
    timed: bool = False,
) -> InputPipe:
    """Make an iterator for batches.

    Args:
        wanted: The inputs of the model that it gives.
        batch: The number of examples in a batch, or None for any number.
        placed: The place of the iterator.
        ledger: The ledger of the graph.
        name: Its name in the graph.
        timed: Whether steps can measure how long they wait for data. GPUs have no op for the time.
    """
    at = Spot(ledger.writer("input"), name, placed)
    names, types, shapes = _kinds(wanted, batch)

    def iterator() -> tf.Tensor:
        kinds = dict(zip(names, map(tf.as_dtype, types), strict=True))
        sizes = dict(zip(names, map(tf.TensorShape, shapes), strict=True))
        return iterator_resource(tf.compat.v1.data.Iterator.from_structure(kinds, sizes))

    handle = write_traced(at, iterator)
    asked = at.op("Timestamp", "asked")[0] if timed and placed.device.kind == "cpu" else None
    batches = _next(at, wanted, batch, handle)
    return InputPipe(tuple(wanted), placed, ledger, handle, batches, batch, asked, name=name)


def _take_time(pipe: InputPipe, at: Spot, asked: Tensor | None, given: Mapping[str, Tensor]) -> None:
    """Measure the time from `asked` until all of `given` is there."""
    if asked is not None:
        (now,) = at.waiting(dict.fromkeys(each.op for each in given.values())).op("Timestamp", "given")
        (waited,) = at.op("Sub", "waited", now, asked)
        pipe.waits.append(waited)
        pipe.asks.append((asked, waited))


def split_batch(pipe: InputPipe, sizes: Sequence[int]) -> list[dict[str, Tensor]]:
    """Split the pipe's global batch into consecutive pieces of `sizes` examples, one for each clone.

    Returns:
        The tensors of each clone's piece, by the names of the inputs.
    """
    at = pipe.at()
    _take_time(pipe, at, pipe.asked, pipe.batch)
    if len(sizes) == 1:
        return [dict(pipe.batch)]
    pieces = write_traced(at, _split, pipe.batch, sizes=tuple(sizes))
    return [{name: parts[clone] for name, parts in pieces.items()} for clone in range(len(sizes))]


def _split(batch: Mapping[str, tf.Tensor], sizes: Sequence[int]) -> dict[str, list[tf.Tensor]]:
    return {name: tf.split(each, list(sizes), name=f"split/{name}") for name, each in batch.items()}


def cut_micro_batches(
    pipe: InputPipe, clone: int, piece: Mapping[str, Tensor], micro_batches: int
) -> dict[str, Tensor]:
    """Give a clone's piece a first axis of `micro_batches` consecutive micro-batches.

    Args:
        pipe: The iterator that the piece is from.
        clone: The number of the clone among those that the pipe feeds.
        piece: The tensors of the clone's batch by name, of shape [examples, ...].
        micro_batches: The number of micro-batches, which divides the number of examples.

    Returns:
        The tensors by name, of shape [micro_batches, examples / micro_batches, ...].
    """
    found: dict[str, Tensor] = write_traced(pipe.at(clone), _cut, piece, count=micro_batches)
    return found


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

    Returns:
        The tensors of each clone's batch, by the names of the inputs.
    """
    assert pipe.size is not None
    drawn = []
    for clone, size in enumerate(sizes):
        at, parts = pipe.at(clone), list[Mapping[str, Tensor]]()
        asked = pipe.asked if pipe.asked is None or clone == 0 else at.op("Timestamp", "asked")[0]
        for number in range(size // pipe.size):
            first = clone == number == 0
            after = [each.op for each in parts[-1].values()] if parts else []
            parts.append(pipe.batch if first else pipe.draw(at.waiting(dict.fromkeys(after))))
        _take_time(pipe, at, asked, parts[-1])
        drawn.append(_joined(pipe, at, parts))
    return drawn


def _joined(pipe: InputPipe, at: Spot, parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    if len(parts) == 1:
        return dict(parts[0])
    padding = tuple((each.name, each.padding) for each in pipe.wanted if each.free)
    found: dict[str, Tensor] = write_traced(at, _together, parts, padding=padding)
    return found


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
        tensors: Batches of an input that has axes without a fixed size.
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
