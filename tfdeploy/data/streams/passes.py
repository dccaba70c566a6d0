"""From raw records to passes over the examples: order, shards, caches, epochs and batches, all in tf.data.

Transforms that change tensors are applied after examples are batched, because they treat each example by
itself. Only a `cache` applies them earlier, and records that are decoded one by one, such as images, are also
changed one by one. Transforms that choose and order examples work on raw records, which are small. What comes
before the last cache is built once. What comes after it is built for every pass, with a seed of its own.

If there are random changes, each record carries a key on its way: the number of the pass, and the number of
the record in the source. The random numbers of an example follow from its key, not from its place in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.process import memory_limit
from tfdeploy.data.arguments import Field, StreamOptions, Tensors
from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.base import FileSource, Source
from tfdeploy.data.streams.order import (
    FileShare,
    Shard,
    bucketed,
    bytes_of,
    mapped,
    measured_in_chunks,
    measured_one_by_one,
)
from tfdeploy.data.transforms.changes import Bucket, Cast, Change, OneTensor, Pad, Rename, Transform
from tfdeploy.data.transforms.images import Draws, Mixup, RandomChange, draws_of, lookahead_of
from tfdeploy.data.transforms.table import Cache, Choice, Shuffle, Skip, Take

EPOCHS = 2**62
CHUNK_BYTES = 1 << 22
LARGEST_CHUNK = 1024
READ_AHEAD = 16
"""How many records are read ahead of those that are decoded one by one: a pass begins while one ends."""

EMPTY = "a pass has no example for"
"""How the fault of a pass without examples begins, before the name of who reads it."""
LOOK_EVERY = 64
"""After how many passes files are looked at again: those that were emptied would be read for ever."""


Step = Transform | Shard


def steps_of(
    transforms: Sequence[Transform], options: StreamOptions, shard: Shard | None = None
) -> tuple[Step, ...]:
    """Return the steps of a stream: its transforms and its shard, without shuffles in evaluation.

    The shard comes as early as possible, but after the last `take` or `skip`.
    """
    last = max((at for at, each in enumerate(transforms) if isinstance(each, Choice)), default=-1)
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
    """Raw records and the changes that are still to be made."""

    dataset: Any  # the records, or pairs of a key and a record if there is a seed
    source: Source | None  # the source, which decodes the records; None if they are tensors
    changes: tuple[Change, ...] = ()
    # The seed of random changes. If it is None, there are no keys, and random changes do what they do to
    # examples that are not for training.
    seed: int | None = None
    ragged: bool = False  # whether tensors of the source can have different sizes in a batch

    @property
    def per_record(self) -> bool:
        """Whether records are decoded one by one."""
        return self.source is not None and self.source.per_record

    @property
    def lookahead(self) -> int:
        """How many further records a batch needs."""
        return 0 if self.seed is None else lookahead_of(self.changes)

    def _finish(self, batch: Tensors, key: Any, start: int = 0, stop: int | None = None) -> Tensors:
        """Apply the changes from number `start` to number `stop` to a batch.

        Without a key, random changes do what they do to examples that are not for training.
        """
        changes = dict(list(enumerate(self.changes))[start:stop])
        draws: Mapping[int, Draws] = {}
        if key is not None and self.seed is not None:
            random = {index: each for index, each in changes.items() if isinstance(each, RandomChange)}
            draws = draws_of(random, tf.reshape(tf.stack(key, axis=-1), [-1, 2]), self.seed)
        for index, change in changes.items():
            if isinstance(change, RandomChange) and index in draws:
                batch = change.apply_randomly(batch, draws[index])
            else:
                batch = change.apply(batch)
        return batch

    def _decode_batch(self, key: Any, batch: Any) -> Tensors:
        return self._finish(batch if self.source is None else self.source.decode(batch), key)

    def _decode_one(self, key: Any, record: Any, stop: int) -> Tensors:
        """Decode one record, and apply the changes before number `stop` to it.

        The record stays in the cache of a processor meanwhile.
        """
        source = self.source
        assert source is not None
        tensors = source.decode_as(record, self._floats())
        batch = {name: tf.expand_dims(tensor, 0) for name, tensor in tensors.items()}
        batch = self._finish(batch, key, 0, stop)
        return {name: tf.squeeze(tensor, 0) for name, tensor in batch.items()}

    def _finish_rows(self, element: Any) -> Tensors:
        """Return a batch of decoded records with the changes that need the others."""
        key, batch = element if self._keys_go_on else (None, element)
        return self._finish(batch, key, self._alone)

    @property
    def _keys_go_on(self) -> bool:
        """Whether a change draws random numbers after those that are made to each record by itself."""
        rest = self.changes[self._alone :]
        return self.seed is not None and any(isinstance(each, RandomChange) for each in rest)

    def _parts(self, element: Any) -> tuple[Any, Any]:
        """Return the key, or None, and the record of an element of the dataset."""
        return (None, element) if self.seed is None else element

    @property
    def _alone(self) -> int:
        """The number of changes before the first one that needs other records."""
        count = len(self.changes)
        pads = (at for at, change in enumerate(self.changes) if isinstance(change, Pad))
        mixes = (at for at in range(count) if lookahead_of(self.changes[: at + 1]))
        return min(next(pads, count), count if self.seed is None else next(mixes, count))

    @property
    def _goes_alone(self) -> bool:
        """Whether records are decoded and changed one by one, each without the others."""
        return self.per_record and self._alone == len(self.changes)

    def _decoded(self, element: Any) -> Any:
        """Return an element of the dataset with its record decoded, and changed as far as it can be alone."""
        key, record = self._parts(element)
        tensors = self._decode_one(key, record, self._alone)
        return (key, tensors) if self._keys_go_on else tensors

    def _floats(self) -> frozenset[str]:
        """Return the tensors of the source to decode as floats: a cast to float32 changes them first."""
        assert self.source is not None
        untouched = {each.name: each.name for each in self.source.fields}
        found: set[str] = set()
        for change in self.changes:
            if isinstance(change, Rename):
                untouched = {change.after(now): name for now, name in untouched.items()}
            elif isinstance(change, Mixup | OneTensor) and not change.moves_only:
                names = {untouched.pop(each) for each in change.names if each in untouched}
                if isinstance(change, Cast) and change.dtype == "float32":
                    found |= names
        return frozenset(found)

    def single(self, chunk: int) -> Any:
        """Return a dataset of single examples, decoded in chunks if possible."""
        if self._goes_alone:
            return mapped(self.dataset, lambda each: self._decode_one(*self._parts(each), self._alone))
        if self.source is None and not self.changes:
            return self.dataset
        return self.batched(chunk, drop_remainder=False).unbatch()

    def cached(self, chunk: int) -> Any:
        """Return a dataset of single examples that are kept in memory, with the numbers of their records."""
        if self.seed is None:
            return self.single(chunk).cache()
        if self.per_record:
            return mapped(
                self.dataset, lambda each: (each[0], self._decode_one(None, each[1], self._alone))
            ).cache()
        batches = _grouped(self.dataset, chunk, ragged=self.ragged)
        return mapped(batches, lambda each: (each[0], self._decode_batch(None, each[1]))).unbatch().cache()

    def batched(self, size: int, *, drop_remainder: bool) -> Any:
        """Return a dataset of batches of examples."""
        if self._goes_alone:
            return _grouped(self.single(1), size, ragged=self.ragged, drop_remainder=drop_remainder)
        if self.per_record:
            rows = self._rows(mapped(self.dataset, self._decoded), size, drop_remainder=drop_remainder)
            return mapped(rows, self._finish_rows)
        rows = self._rows(self.dataset, size, drop_remainder=drop_remainder)
        if self.source is None and not self.changes:
            return rows
        return mapped(rows, lambda each: self._decode_batch(*self._parts(each)))

    def _rows(self, dataset: Any, size: int, *, drop_remainder: bool) -> Any:
        """Return batches of `size` elements, each with the elements that follow it if changes need them."""
        lookahead, ragged = self.lookahead, self.ragged
        if not lookahead:
            return _grouped(dataset, size, ragged=ragged, drop_remainder=drop_remainder)
        many = size + lookahead

        def stacked(*parts: Any) -> Any:
            window = parts[0] if len(parts) == 1 else parts
            elements = tf.data.Dataset.zip(window)
            return _grouped(elements, many, ragged=ragged, drop_remainder=drop_remainder)

        windows = dataset.window(many, shift=size, drop_remainder=drop_remainder)
        batches = windows.flat_map(without_autograph(stacked))

        def has_rows(*parts: Any) -> Any:
            return tf.shape(tf.nest.flatten(parts)[0])[0] > lookahead

        return batches if drop_remainder else batches.filter(without_autograph(has_rows))


def _grouped(dataset: Any, size: int, *, ragged: bool, drop_remainder: bool = False) -> Any:
    """Return batches of `size` elements; with `ragged`, tensors without a fixed shape become ragged ones."""
    batch = dataset.ragged_batch if ragged else dataset.batch
    return batch(size, drop_remainder=drop_remainder)


BYTES_OF_A_PLACE = 24
"""The bytes that TensorFlow takes at once for each example that the buffer of a shuffle may hold."""


@frozen
class Passes:
    """The passes over a split, or over some files of its source."""

    source: Source
    steps: tuple[Step, ...]
    fields: tuple[Field, ...]  # the tensors of an example after all transforms
    seed: int  # the seed of shuffles without one of their own
    options: StreamOptions
    files: FileShare | None = None  # the files that are read; None for all
    batch: int = 1  # the number of examples of a batch, for which `bucket` orders them

    def size(self) -> int | None:
        """Return the number of examples of a pass; None if it can be known only by reading all of them."""
        return self._size_after(self.steps)

    def _size_after(self, steps: Sequence[Step]) -> int | None:
        count = self.source.count() if self.files is None else self.files.count
        return size_of_pass(count, steps)

    def _records(self) -> Any:
        if self.files is None or not isinstance(self.source, FileSource):
            return self.source.records()
        return self.source.records(self.files.numbers)

    def _numbered_records(self) -> Any:
        """Return pairs of a record's number in the whole source and the record."""
        numbers = tf.data.Dataset.range(EPOCHS)
        if self.files is not None and isinstance(self.source, FileSource):
            counts = self.source.counts()
            starts = [sum(counts[:number]) for number in self.files.numbers]
            stops = [start + counts[number] for start, number in zip(starts, self.files.numbers, strict=True)]
            ranges = tf.data.Dataset.from_tensor_slices(
                (tf.constant(starts, tf.int64), tf.constant(stops, tf.int64))
            )
            numbers = ranges.flat_map(without_autograph(tf.data.Dataset.range))
        return tf.data.Dataset.zip((numbers, self._records()))

    @property
    def _random(self) -> bool:
        """Whether examples are changed at random, for which they need keys."""
        return self.options.training and any(isinstance(each, RandomChange) for each in self._split()[1])

    def _split(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Return the steps up to the last cache, and those after it."""
        at = max((at + 1 for at, each in enumerate(self.steps) if isinstance(each, Cache)), default=0)
        return self.steps[:at], self.steps[at:]

    def _base_seed(self, shuffle: Shuffle) -> int:
        """Return a seed below 2**31 of its own for each shuffle of the split and each seed of the spec."""
        seed = self.seed if shuffle.seed is None else shuffle.seed
        text = f"{seed}/{self.steps.index(shuffle)}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) % 2**31

    def _buffer(self, shuffle: Shuffle) -> int:
        """Return from how many examples one is drawn: TensorFlow takes memory for more than there are.

        Raises:
            SpecError: If it is not known how many there are, and there may not be as much memory.
        """
        there = self._size_after(self.steps[: self.steps.index(shuffle)])
        if there is None and shuffle.buffer * BYTES_OF_A_PLACE > memory_limit() // 2:
            reason = "nobody knows how many examples there are, and there is no memory for the whole buffer"
            raise shuffle.refuse(reason, "take a smaller buffer")
        return shuffle.buffer if there is None else min(shuffle.buffer, max(there, 1))

    def _order(self, dataset: Any, steps: Sequence[Step], epoch: Any) -> Any:
        for step in steps:
            match step:
                case Shuffle():
                    seed = tf.add(tf.constant(self._base_seed(step), tf.int64), epoch)
                    dataset = _shuffled(dataset, self._buffer(step), seed)
                case Take():
                    dataset = dataset.take(step.count)
                case Skip():
                    dataset = dataset.skip(step.count)
                case Shard():
                    dataset = dataset.shard(step.of, step.index)
                case Bucket():
                    dataset = self._bucketed(dataset, step, epoch)
        return dataset

    def _bucketed(self, dataset: Any, bucket: Bucket, epoch: Any) -> Any:
        """Return a pass ordered by length, as batches of the stream want it."""
        size = self.size()
        if size is None:
            return dataset
        batch = tf.constant(self.batch, tf.int64)
        begun = tf.math.floormod(epoch * size, batch) if self.options.training else tf.constant(0, tf.int64)
        open_places = tf.math.floormod(batch - begun, batch)
        return bucketed(self._measured(dataset, bucket), bucket, self.batch, open_places)

    def _measured(self, dataset: Any, bucket: Bucket) -> Any:
        """Return pairs of the length that a bucket looks at and the record."""
        cached, after = self._split()
        source = None if any(isinstance(each, Cache) for each in cached) else self.source
        name = bucket.name
        for each in reversed(after[: after.index(bucket)]):
            if isinstance(each, Rename):
                name = each.names.get(name, name)

        def record_of(element: Any) -> Any:
            return element[1] if self._random else element

        def length(element: Any) -> Any:
            record = record_of(element)
            tensors = record if source is None else source.decode(record)
            return tf.shape(tensors[name], tf.int64)[0]

        def lengths(elements: Any) -> Any:
            assert source is not None
            return source.decode(record_of(elements))[name].row_lengths()

        if source is None or source.per_record or source.gives_tensors:
            return measured_one_by_one(dataset, length)
        return measured_in_chunks(dataset, lengths)

    def _fixed(self) -> Examples:
        """Return the examples up to the last cache, which are the same in every pass."""
        records = self._numbered_records() if self._random else self._records()
        seed = self.seed if self._random else None
        examples = Examples(records, self.source, seed=seed, ragged=self.source.ragged)
        zero = tf.constant(0, tf.int64)
        for step in self._split()[0]:
            match step:
                case Change():
                    examples = evolve(examples, changes=(*examples.changes, step))
                case Cache():
                    examples = evolve(examples, dataset=examples.cached(self.chunk), source=None, changes=())
                case _:
                    examples = evolve(examples, dataset=self._order(examples.dataset, [step], zero))
        return examples

    def _pass(self, fixed: Any, number: Any) -> Any:
        """Return the records of one pass in their order, with keys if they need them."""
        cached, after = self._split()
        dataset = self._order(fixed, [each for each in after if not isinstance(each, Change)], number)
        if self.source.unrepeatable and not cached:
            dataset = _never_empty(dataset, f"{EMPTY} {self.options.reader}")
        if not self._random:
            return dataset
        passes = tf.data.Dataset.from_tensors(number).repeat()
        keyed = tf.data.Dataset.zip((passes, dataset))
        return keyed.map(without_autograph(lambda now, numbered: ((now, numbered[0]), numbered[1])))

    def _passes(self, fixed: Any, epoch: Any, skip: Any) -> Any:
        """Return pass after pass from number `epoch` on, without the first `skip` records of that one."""
        cached, after = self._split()
        kept = [each for each in after if not isinstance(each, Change | Shuffle | Bucket)]

        def checked(number: Any) -> Any:
            """Return the number; fail if there is no record any more, because files have changed."""
            some = self._order(fixed, kept, number).take(1)
            found = some.reduce(tf.constant(False), without_autograph(lambda *_: tf.constant(True)))
            with tf.control_dependencies([tf.debugging.Assert(found, [f"{EMPTY} {self.options.reader}"])]):
                return tf.identity(number)

        def one_pass(number: Any) -> Any:
            if not cached and not self.source.unrepeatable:
                due = tf.equal(tf.math.floormod(number, LOOK_EVERY), LOOK_EVERY - 1)
                number = tf.cond(due, lambda: checked(number), lambda: tf.identity(number))
            first = tf.equal(number, tf.convert_to_tensor(epoch, tf.int64))
            skipped = tf.where(first, tf.convert_to_tensor(skip, tf.int64), tf.constant(0, tf.int64))
            return self._pass(fixed, number).skip(skipped)

        return tf.data.Dataset.range(epoch, EPOCHS).flat_map(without_autograph(one_pass))

    def examples(self, consumed: Any, size: int | None, *, repeat: bool) -> Examples:
        """Return the examples after those that were consumed: of one pass, or of pass after pass.

        If a change needs examples that follow, those after the last one are the first of the next pass.

        Args:
            size: The number of examples of a pass. If it is known, earlier passes are not read.
        """
        epoch, skip = (consumed // size, consumed % size) if size else (0, 0)
        unread = 0 if size else consumed
        examples = self._fixed()
        fixed, after = examples.dataset, [each for each in self._split()[1] if isinstance(each, Change)]
        examples = evolve(examples, changes=(*examples.changes, *after))
        if repeat:
            dataset = self._passes(fixed, epoch, skip)
        else:
            dataset, unread = self._pass(fixed, tf.constant(epoch, tf.int64)), skip + unread
        dataset = dataset.skip(unread) if tf.is_tensor(unread) or unread else dataset
        if examples.per_record:
            dataset = dataset.prefetch(READ_AHEAD)
        if self.options.window is not None:
            dataset = _part_of_each(dataset, *self.options.window)
        if examples.lookahead and not repeat:
            dataset = dataset.concatenate(self._passes(fixed, epoch + 1, 0).take(examples.lookahead))
        return evolve(examples, dataset=dataset)

    @property
    def chunk(self) -> int:
        """The number of examples to decode at a time if they are not batched."""
        return max(1, min(LARGEST_CHUNK, CHUNK_BYTES // max(bytes_of(self.fields), 1)))


def _part_of_each(dataset: Any, start: int, stop: int, size: int) -> Any:
    """Return the elements from number `start` to `stop` of each `size` elements."""

    def inside(number: Any, _: Any) -> Any:
        at = tf.math.floormod(number, tf.constant(size, tf.int64))
        return tf.logical_and(at >= start, at < stop)

    kept = dataset.enumerate().filter(without_autograph(inside))
    return kept.map(without_autograph(lambda _, element: element))


def _never_empty(dataset: Any, reason: str) -> Any:
    """Return a dataset that fails with `reason` if it has no element, so that passes never repeat for ever.

    Behind the elements, which are or consist of tensors, comes one more, which is taken away again.
    """

    def real(*parts: Any) -> Any:
        return (parts[0] if len(parts) == 1 else parts), True

    def behind(seen: Any, pair: Any) -> Any:
        element, is_real = pair
        with tf.control_dependencies([tf.debugging.Assert(seen | is_real, [reason])]):
            return tf.constant(True), (element, tf.identity(is_real))

    zeros = tf.nest.map_structure(
        lambda each: tf.zeros([size or 0 for size in each.shape], each.dtype), dataset.element_spec
    )
    last = tf.data.Dataset.from_tensors((zeros, False))
    both = dataset.map(without_autograph(real)).concatenate(last)
    checked = both.scan(tf.constant(False), without_autograph(behind))
    kept = checked.filter(without_autograph(lambda _, is_real: is_real))
    return kept.map(without_autograph(lambda element, _: element))


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
