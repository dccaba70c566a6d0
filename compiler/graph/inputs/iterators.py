"""An iterator on the input device, whose batches are split into one piece for each clone.

The iterator knows only types and shapes. The dataset is attached when it is needed, so that a graph can be
built, inspected and saved on a machine without the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import iterator_resource, variant_of
from compiler.graph.ledger import Ledger
from compiler.model.graph import InputNode
from compiler.reasons import Placed


@define
class InputPipe:
    """An iterator over batches, and the tensors that it gives.

    Attributes:
        wanted: The inputs of the model that it gives.
        placed: The place of the iterator.
        ledger: The ledger of the graph.
        graph: The graph.
        iterator: The handle of the iterator.
        batch: Its tensors by the names of the inputs.
        size: The number of examples that each batch of its dataset must have, or None for any number.
        asked: The time at which a step asks for its batch, or None if it is not measured.
        waits: The seconds that a step then waits: one scalar, or one for each clone if each draws by itself.
            Only steps that fetch them measure the time.
        name: Its name in the graph.
        shard: (index, of how many) if it reads only a part of the data.
        reader: Who reads it in words, if it reads only a part of the data.
        examples: The number of examples that it gives in one step.
        puts: The ops to run once when the data is attached, which fill the staging areas of towers.
        clears: The ops to run before that, which empty these areas.
    """

    wanted: tuple[InputNode, ...]
    placed: Placed
    ledger: Ledger = field(repr=False)
    graph: tf.Graph = field(repr=False)
    iterator: tf.Tensor = field(repr=False)
    batch: Mapping[str, tf.Tensor] = field(repr=False)
    size: int | None = None
    asked: tf.Tensor | None = field(default=None, repr=False)
    waits: list[tf.Tensor] = field(factory=list, repr=False)
    name: str = "input"
    shard: tuple[int, int] | None = None
    reader: str = ""
    examples: int = 0
    puts: list[tf.Operation] = field(factory=list, repr=False)
    clears: list[tf.Operation] = field(factory=list, repr=False)

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

    def draw(self) -> dict[str, tf.Tensor]:
        """Return the tensors of the next batch, made on the current device."""
        kinds = {name: (each.dtype, each.shape) for name, each in sorted(self.batch.items())}
        types, shapes = zip(*kinds.values(), strict=True)
        drawn = tf.raw_ops.IteratorGetNext(
            iterator=self.iterator, output_types=types, output_shapes=shapes, name="next"
        )
        return dict(zip(kinds, drawn, strict=True))


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
    types = {each.name: tf.as_dtype(each.dtype) for each in wanted}
    shapes = {each.name: tf.TensorShape((batch, *each.shape)) for each in wanted}
    with ledger.place(placed, "input"), tf.name_scope(f"{name}/"):
        iterator = tf.compat.v1.data.Iterator.from_structure(types, shapes)
        asked = tf.timestamp("asked") if timed and placed.device.kind == "cpu" else None
        batches = iterator.get_next(name="next")
    graph = tf.compat.v1.get_default_graph()
    handle = iterator_resource(iterator)
    return InputPipe(tuple(wanted), placed, ledger, graph, handle, batches, batch, asked, name=name)


def _take_time(pipe: InputPipe, asked: tf.Tensor | None, given: Mapping[str, tf.Tensor], scope: str) -> None:
    """Measure the time from `asked` until all of `given` is there."""
    if asked is None:
        return
    with pipe.ledger.place(pipe.placed, "input"), tf.name_scope(scope):
        with tf.control_dependencies(list(given.values())):
            now = tf.timestamp("given")
        pipe.waits.append(tf.subtract(now, asked, name="waited"))


def split_batch(pipe: InputPipe, sizes: Sequence[int]) -> list[dict[str, tf.Tensor]]:
    """Split the pipe's global batch into consecutive pieces of `sizes` examples, one for each clone.

    Args:
        pipe: The pipe, whose batch has as many examples as all pieces together.
        sizes: The number of examples for each clone.

    Returns:
        The tensors of each clone's piece, by the names of the inputs.
    """
    _take_time(pipe, pipe.asked, pipe.batch, f"{pipe.name}/")
    if len(sizes) == 1:
        return [dict(pipe.batch)]
    with pipe.ledger.place(pipe.placed, "input"), tf.name_scope(f"{pipe.name}/"):
        pieces = {
            name: tf.split(tensor, list(sizes), name=f"split/{name}") for name, tensor in pipe.batch.items()
        }
    return [{name: parts[clone] for name, parts in pieces.items()} for clone in range(len(sizes))]


def cut_micro_batches(
    pipe: InputPipe, clone: int, piece: Mapping[str, tf.Tensor], micro_batches: int
) -> dict[str, tf.Tensor]:
    """Give a clone's piece a first axis of `micro_batches` consecutive micro-batches.

    Args:
        pipe: The iterator that the piece is from.
        clone: The number of the clone among those that the pipe feeds.
        piece: The tensors of the clone's batch by name, of shape [examples, ...].
        micro_batches: The number of micro-batches, which divides the number of examples.

    Returns:
        The tensors by name, of shape [micro_batches, examples / micro_batches, ...].
    """
    with pipe.ledger.place(pipe.placed, "input"), tf.name_scope(f"{pipe.name}/clone_{clone}/"):
        return {name: _cut(tensor, micro_batches, f"micro_batches/{name}") for name, tensor in piece.items()}


def _cut(tensor: tf.Tensor, count: int, name: str) -> tf.Tensor:
    """Give a tensor a first axis of `count` equal parts."""
    sizes = tensor.shape.as_list()
    wanted = [count, sizes[0] // count, *sizes[1:]]
    if None not in sizes:
        return tf.reshape(tensor, wanted, name=name)
    now = tf.unstack(tf.shape(tensor))
    cut = tf.reshape(tensor, [*wanted[:2], *now[1:]], name=name)
    cut.set_shape(wanted)
    return cut


def draw_batches(pipe: InputPipe, sizes: Sequence[int]) -> list[dict[str, tf.Tensor]]:
    """Let every clone draw from the pipe by itself: a clone that is ready gets the next ones of the stream.

    A clone's batch is made of as many batches of the pipe as fill its size.

    Args:
        pipe: The pipe, the size of whose batches divides all of `sizes`.
        sizes: The number of examples for each clone.

    Returns:
        The tensors of each clone's batch, by the names of the inputs.
    """
    assert pipe.size is not None
    drawn = []
    for clone, size in enumerate(sizes):
        asked, parts = _ask(pipe, clone), list[Mapping[str, tf.Tensor]]()
        for number in range(size // pipe.size):
            first = clone == number == 0
            after = list(parts[-1].values()) if parts else []
            parts.append(pipe.batch if first else _draw(pipe, clone, after))
        _take_time(pipe, asked, parts[-1], f"{pipe.name}/clone_{clone}/")
        drawn.append(_joined(pipe, clone, parts))
    return drawn


def _ask(pipe: InputPipe, clone: int) -> tf.Tensor | None:
    """Return the time at which a clone asks for its batch."""
    if pipe.asked is None or clone == 0:
        return pipe.asked
    with pipe.ledger.place(pipe.placed, "input"), tf.name_scope(f"{pipe.name}/clone_{clone}/"):
        return tf.timestamp("asked")


def _draw(pipe: InputPipe, clone: int, after: Sequence[tf.Tensor]) -> Mapping[str, tf.Tensor]:
    scope = f"{pipe.name}/clone_{clone}/"
    with pipe.ledger.place(pipe.placed, "input"), tf.name_scope(scope), tf.control_dependencies(after):
        return pipe.draw()


def _joined(pipe: InputPipe, clone: int, parts: Sequence[Mapping[str, tf.Tensor]]) -> dict[str, tf.Tensor]:
    if len(parts) == 1:
        return dict(parts[0])
    padding = {each.name: each.padding for each in pipe.wanted if each.free}
    with pipe.ledger.place(pipe.placed, "input"), tf.name_scope(f"{pipe.name}/clone_{clone}/"):
        joined = {}
        for name in parts[0]:
            tensors = [each[name] for each in parts]
            if name in padding:
                tensors = _of_one_size(tensors, padding[name])
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
