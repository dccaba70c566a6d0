"""From raw records to passes over the examples: order, shards, caches, epochs and batches, all in tf.data.

Transforms that change tensors are applied after examples are batched, because they treat each example by
itself. Only a `cache` applies them earlier, and records that are decoded one by one, such as images, are also
changed one by one. Transforms that choose and order examples work on raw records, which are small. What comes
before the last cache is built once. What comes after it is built for every pass, with a seed of its own.
"""

from __future__ import annotations

from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import evolve, frozen

from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.base import FileSource
from tfdeploy.data.streams.shares import FileShare, Shard
from tfdeploy.data.transforms.changes import Cast, Change, OneTensor, Rename
from tfdeploy.data.transforms.table import Cache, Shuffle, Skip, Take, Transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfdeploy.data.options import Field, StreamOptions, Tensors
    from tfdeploy.data.sources.base import Source

EPOCHS = 2**62
CHUNK_BYTES = 1 << 22
LARGEST_CHUNK = 1024


Step = Transform | Shard


def steps_of(
    transforms: Sequence[Transform], options: StreamOptions, shard: Shard | None = None
) -> tuple[Step, ...]:
    """Return the steps of a stream: its transforms and its shard, without shuffles in evaluation.

    The shard comes as early as possible, but after the last `take` or `skip`.
    """
    last = max((at for at, each in enumerate(transforms) if isinstance(each, Take | Skip)), default=-1)
    steps: list[Step] = [*transforms[: last + 1]]
    if shard is not None:
        steps.append(shard)
    rest = transforms[last + 1 :]
    return (*steps, *(each for each in rest if options.training or not isinstance(each, Shuffle)))


def size_of_pass(count: int | None, steps: Sequence[Step]) -> int | None:
    """Return the number of examples of a pass, given that of the source; None if it is not known."""
    for step in steps:
        match step:
            case Take():
                count = None if count is None else min(count, step.count)
            case Skip():
                count = None if count is None else max(count - step.count, 0)
            case Shard():
                count = None if count is None else len(range(step.index, count, step.of))
    return count


@frozen
class Examples:
    """Raw records and the changes that are still to be made.

    Attributes:
        dataset: The records.
        source: The source, which decodes the records; None if they are tensors.
        changes: The transforms that change tensors.
    """

    dataset: Any
    source: Source | None
    changes: tuple[Change, ...] = ()

    @property
    def per_record(self) -> bool:
        """Whether records are decoded one by one."""
        return self.source is not None and self.source.per_record

    def _finish(self, batch: Tensors) -> Tensors:
        for change in self.changes:
            batch = change.apply(batch)
        return batch

    def _decode_batch(self, batch: Any) -> Tensors:
        return self._finish(batch if self.source is None else self.source.decode(batch))

    def _decode_one(self, record: Any) -> Tensors:
        """Decode and change one record, which stays in a processor's cache meanwhile."""
        source = self.source
        assert source is not None
        tensors = source.decode_as(record, self._floats())
        batch = {name: tensor[tf.newaxis] for name, tensor in tensors.items()}
        return {name: tf.squeeze(tensor, 0) for name, tensor in self._finish(batch).items()}

    def _floats(self) -> frozenset[str]:
        """Return the tensors of the source that a cast to float32 is the first to change."""
        assert self.source is not None
        untouched = {each.name: each.name for each in self.source.fields}
        found = set()
        for change in self.changes:
            if isinstance(change, Rename):
                olds = {old: new for new, old in change.names.items()}
                untouched = {olds.get(now, now): name for now, name in untouched.items()}
            elif isinstance(change, OneTensor):
                name = untouched.pop(change.name, None)
                if name is not None and isinstance(change, Cast) and change.dtype == "float32":
                    found.add(name)
        return frozenset(found)

    def single(self, chunk: int) -> Any:
        """Return a dataset of single examples, decoded in chunks if possible."""
        if self.per_record:
            return self.dataset.map(without_autograph(self._decode_one), num_parallel_calls=tf.data.AUTOTUNE)
        if self.source is None and not self.changes:
            return self.dataset
        batches = self.dataset.batch(chunk)
        return batches.map(
            without_autograph(self._decode_batch), num_parallel_calls=tf.data.AUTOTUNE
        ).unbatch()

    def batched(self, size: int, *, drop_remainder: bool) -> Any:
        """Return a dataset of batches of examples."""
        if self.per_record:
            return self.single(1).batch(size, drop_remainder=drop_remainder)
        batches = self.dataset.batch(size, drop_remainder=drop_remainder)
        if self.source is None and not self.changes:
            return batches
        return batches.map(without_autograph(self._decode_batch), num_parallel_calls=tf.data.AUTOTUNE)


@frozen
class Passes:
    """The passes over a split, or over some files of its source.

    Attributes:
        source: The source.
        steps: The transforms and the shard.
        fields: The tensors of an example after all transforms.
        seed: The seed of shuffles without one of their own.
        files: The files that are read; None for all.
    """

    source: Source
    steps: tuple[Step, ...]
    fields: tuple[Field, ...]
    seed: int
    files: FileShare | None = None

    def size(self) -> int | None:
        """Return the number of examples of a pass; None if it can be known only by reading all of them."""
        count = self.source.count() if self.files is None else self.files.count
        return size_of_pass(count, self.steps)

    def _records(self) -> Any:
        if self.files is None or not isinstance(self.source, FileSource):
            return self.source.records()
        return self.source.records_of(self.files.numbers)

    def _split(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Return the steps up to the last cache, and those after it."""
        at = max((at + 1 for at, each in enumerate(self.steps) if isinstance(each, Cache)), default=0)
        return self.steps[:at], self.steps[at:]

    def _base_seed(self, shuffle: Shuffle) -> int:
        """Return a seed below 2**31 of its own for each shuffle of the split and each seed of the spec."""
        seed = self.seed if shuffle.seed is None else shuffle.seed
        text = f"{seed}/{self.steps.index(shuffle)}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) % 2**31

    def _order(self, dataset: Any, steps: Sequence[Step], epoch: Any) -> Any:
        for step in steps:
            match step:
                case Shuffle():
                    seed = tf.add(tf.constant(self._base_seed(step), tf.int64), epoch)
                    dataset = _shuffled(dataset, step.buffer, seed)
                case Take():
                    dataset = dataset.take(step.count)
                case Skip():
                    dataset = dataset.skip(step.count)
                case Shard():
                    dataset = dataset.shard(step.of, step.index)
        return dataset

    def _fixed(self) -> Examples:
        """Return the examples up to the last cache, which are the same in every pass."""
        examples = Examples(self._records(), self.source)
        zero = tf.constant(0, tf.int64)
        for step in self._split()[0]:
            match step:
                case Change():
                    examples = evolve(examples, changes=(*examples.changes, step))
                case Cache():
                    examples = Examples(examples.single(self.chunk).cache(), None)
                case _:
                    examples = evolve(examples, dataset=self._order(examples.dataset, [step], zero))
        return examples

    def _one(self, epoch: int, skip: int) -> Examples:
        """Return pass number `epoch` without its first `skip` examples."""
        examples, (changes, order) = self._fixed(), self._moving()
        dataset = self._order(examples.dataset, order, tf.constant(epoch, tf.int64))
        dataset = dataset.skip(skip) if skip else dataset
        return evolve(examples, dataset=dataset, changes=(*examples.changes, *changes))

    def _moving(self) -> tuple[list[Change], list[Step]]:
        moving = self._split()[1]
        return [each for each in moving if isinstance(each, Change)], [
            each for each in moving if not isinstance(each, Change)
        ]

    def _endless(self, epoch: int, skip: int, total_skip: int) -> Examples:
        """Return pass after pass from number `epoch` on, without the first `skip` of that one."""
        examples, (changes, order) = self._fixed(), self._moving()
        fixed = examples.dataset

        def one_pass(number: Any) -> Any:
            dataset = self._order(fixed, order, number)
            first = tf.equal(number, tf.constant(epoch, tf.int64))
            return dataset.skip(tf.where(first, tf.constant(skip, tf.int64), tf.constant(0, tf.int64)))

        dataset = tf.data.Dataset.range(epoch, EPOCHS).flat_map(without_autograph(one_pass))
        dataset = dataset.skip(total_skip) if total_skip else dataset
        return evolve(examples, dataset=dataset, changes=(*examples.changes, *changes))

    def examples(self, consumed: int, size: int | None, *, repeat: bool) -> Examples:
        """Return the examples after those that were consumed.

        Args:
            consumed: How many examples were consumed, over all passes.
            size: The number of examples of a pass. If it is known, earlier passes are not read.
            repeat: Whether passes are repeated without end.
        """
        epoch, skip = divmod(consumed, size) if size else (0, 0)
        unread = 0 if size else consumed
        return self._endless(epoch, skip, unread) if repeat else self._one(epoch, skip + unread)

    @property
    def chunk(self) -> int:
        """The number of examples to decode at a time if they are not batched."""
        size = sum(prod(each.shape) * (tf.as_dtype(each.dtype).size or 16) for each in self.fields)
        return max(1, min(LARGEST_CHUNK, CHUNK_BYTES // max(size, 1)))


def _shuffled(dataset: Any, buffer: int, seed: Any) -> Any:
    """Shuffle in an order that follows from `seed` alone, an int64 tensor.

    TensorFlow mixes in the seed of the current graph, or in eager mode the user's global one, which only
    the graph of a function can do without.
    """
    if tf.executing_eagerly():
        shuffled = without_autograph(lambda each: _shuffled(dataset, buffer, each))
        return tf.data.Dataset.from_tensors(seed).flat_map(shuffled)
    graph = tf.compat.v1.get_default_graph()
    kept, graph.seed = graph.seed, None
    try:
        return dataset.shuffle(buffer, seed=seed, reshuffle_each_iteration=False)
    finally:
        graph.seed = kept
