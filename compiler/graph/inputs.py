"""Where examples enter the graph: an iterator on the input device, its batches cut into one piece per clone.

The iterator knows only types and shapes. The data set is attached when it is needed, so that a graph can be
built, looked at and saved where its data is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.ledger import Ledger
from compiler.model_graph import InputNode
from compiler.plan import Placed


@define
class InputPipe:
    """An iterator over batches, and the tensors that it gives."""

    wanted: tuple[InputNode, ...]
    placed: Placed
    ledger: Ledger = field(repr=False)
    graph: tf.Graph = field(repr=False)
    iterator: Any = field(repr=False)
    batch: Mapping[str, tf.Tensor] = field(repr=False)

    def attach(self, make_dataset: Callable[[], tf.data.Dataset]) -> tf.Operation:
        """Connect the data set that `make_dataset` makes in the graph; return the op that starts it.

        The data set's elements are dicts of batched tensors under the names of the model's inputs.
        """
        with self.graph.as_default(), self.ledger.place(self.placed, "input"):
            return self.iterator.make_initializer(make_dataset())


def open_pipe(
    wanted: Sequence[InputNode], batch: int | None, placed: Placed, ledger: Ledger, name: str
) -> InputPipe:
    """Make an iterator for batches of a known size, or of any (`batch` None), on the device of `placed`."""
    types = {each.name: tf.as_dtype(each.dtype) for each in wanted}
    shapes = {each.name: tf.TensorShape((batch, *each.shape)) for each in wanted}
    with ledger.place(placed, "input"), tf.name_scope(f"{name}/"):
        iterator = tf.compat.v1.data.Iterator.from_structure(types, shapes)
        batches = iterator.get_next(name="next")
    graph = tf.compat.v1.get_default_graph()
    return InputPipe(tuple(wanted), placed, ledger, graph, iterator, batches)


def split_batch(pipe: InputPipe, sizes: Sequence[int]) -> list[dict[str, tf.Tensor]]:
    """Cut the pipe's global batch into consecutive pieces of `sizes` examples, one per clone."""
    if len(sizes) == 1:
        return [dict(pipe.batch)]
    with pipe.ledger.place(pipe.placed, "input"), tf.name_scope("input/"):
        pieces = {
            name: tf.split(tensor, list(sizes), name=f"split/{name}") for name, tensor in pipe.batch.items()
        }
    return [{name: parts[clone] for name, parts in pieces.items()} for clone in range(len(sizes))]
