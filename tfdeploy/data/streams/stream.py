"""A split that was opened: its size, its examples, and what is wrong with its data."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import dropwhile
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import define, evolve, field

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data import small_graphs
from tfdeploy.data.arguments import FLOATS, Field, StreamOptions
from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.base import PythonOnly, Source
from tfdeploy.data.streams.order import FileShare, Shard, share_of
from tfdeploy.data.streams.passes import EMPTY, Examples, Passes, Step, steps_of
from tfdeploy.data.transforms.changes import Bucket, Cast, Change, Rename, Scale, Transform
from tfdeploy.data.transforms.table import Choice, Shuffle, Skip, Take, used_rows


@define(eq=False, slots=False)
class Stream:
    """The examples of one split as this process is to read them.

    `fields` are the tensors of an example in the order of the model's inputs. If `needs_python` is a reason,
    the datasets work in the client's own process only. Otherwise they work on any server at which the files
    have the same absolute paths.
    """

    split: ir.Split
    source: Source
    transforms: tuple[Transform, ...]
    fields: tuple[Field, ...]
    options: StreamOptions
    _passes: Passes = field(init=False)

    def __attrs_post_init__(self) -> None:
        share = share_of(self.source, self.transforms, self.options)
        steps = steps_of(self.transforms, self.options, share if isinstance(share, Shard) else None)
        files = share if isinstance(share, FileShare) else None
        seed = _seed(self.options, steps)
        self._passes = Passes(self.source, steps, self.fields, seed, self.options, files)

    @property
    def needs_python(self) -> PythonOnly | None:
        """Why the datasets belong into the client's process; None if TensorFlow alone reads them."""
        return self.source.needs_python

    @cached_property
    def size(self) -> int | None:
        """Examples in one pass of this stream; None if only reading them all would tell."""
        return self._passes.size()

    # --- reading ------------------------------------------------------------------------------------------

    def batches(self, batch_size: int, *, repeat: bool, drop_remainder: bool) -> Any:
        """Return batches of `batch_size` examples as a tf.data.Dataset of the current graph, prefetched.

        With `repeat`, pass follows pass without end and a batch may hold the end of one and the start of
        the next, so that every run of `size` examples is one exact pass. `drop_remainder` leaves out a
        last, smaller batch.
        """
        consumed = self.options.skip_examples
        size = self.size if tf.is_tensor(consumed) or consumed else None
        if size == 0:
            raise RunError(self.nothing())
        examples = evolve(self._passes, batch=batch_size).examples(consumed, size, repeat=repeat)
        batches = examples.batched(batch_size, drop_remainder=drop_remainder)
        batches = batches.map(without_autograph(self._wanted_only)).prefetch(tf.data.AUTOTUNE)
        options = tf.data.Options()
        # The first batches are made while TensorFlow prepares the graph for its first step.
        options.experimental_warm_start = repeat
        options.deterministic = True
        # TensorFlow's tuning of a pipeline gains nothing here, and its thread, which looks at it ever more
        # rarely, can keep a session from closing until it looks again: up to a minute after a long run.
        options.autotune.enabled = False
        return batches.with_options(options)

    def _wanted_only(self, tensors: dict[str, Any]) -> dict[str, Any]:
        return {each.name: tensors[each.name] for each in self.fields}

    # --- faults -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Look at the files and the first example.

        Raises:
            RunError: If something is wrong with them.
            SpecError: If a transform needs a number of examples that is not known.
        """
        self.source.check()
        bucket = next((each for each in self.transforms if isinstance(each, Bucket)), None)
        if bucket is not None and self.size is None:
            reason = "the source does not say how many examples a pass has"
            advice = "let the function return something with a length, such as a list"
            raise bucket.refuse(reason, advice)
        if self.size == 0:
            raise RunError(self.nothing())
        start, _ = self._used()
        try:
            found = small_graphs.first_element(lambda: self._records(start, start + 1).single(1))
        except small_graphs.FAILURES as error:
            raise RunError(self._fault(start, small_graphs.reason_of(error))) from error
        shuffled = dropwhile(lambda each: not isinstance(each, Shuffle), self.transforms)
        chosen_later = self.size is None and any(isinstance(each, Choice) for each in shuffled)
        if found is None or (chosen_later and not self._count_up_to(1)):
            raise RunError(self.nothing())

    def require_shares(self, readers: Sequence[str], *, clones: bool) -> None:
        """Raise RunError if one of several readers with a share of their own has no example."""
        wanted = len(readers)
        found = wanted if wanted == 1 else self._count_up_to(wanted)
        if not found:
            raise RunError(self.nothing())
        if found < wanted:
            file = self.source.where(0).path
            raise RunError(errors.empty_share(self._where, file, found, readers, clones=clones))

    def _count_up_to(self, most: int) -> int:
        """Return how many examples a pass has, of which no more than `most` are counted."""
        if self.size is not None:
            return min(self.size, most)

        def count() -> Any:
            records = self.source.records()
            for each in self.transforms:
                match each:
                    case Take():
                        records = records.take(each.count)
                    case Skip():
                        records = records.skip(each.count)
            zero = tf.constant(0, tf.int64)
            return records.take(most).reduce(zero, without_autograph(lambda found, _: found + 1))

        try:
            return int(small_graphs.evaluate(count))
        except small_graphs.FAILURES as error:
            raise RunError(self._fault(0, small_graphs.reason_of(error))) from error

    def explain(self, error: Exception) -> RunError | None:
        """Say which file, record and field made TensorFlow fail with `error`; None if the data is sound.

        This reads the data from its beginning up to the fault.
        """
        if isinstance(error, RunError):
            return error
        if self.source.failures:
            return RunError(self.source.failures[0])
        emptied = re.search(rf"{EMPTY} ([^\]\n]*)\]", str(error))
        if emptied is not None:
            return RunError(self._emptied(emptied[1]))
        if not small_graphs.may_be_data(error):
            return None
        return self._found(error)

    def _found(self, error: Exception) -> RunError | None:
        """Look for the record that has made TensorFlow fail; None if there is none."""
        if self.source.unrepeatable:
            told = "Iterator" in str(error)  # else the function need not have failed
            return RunError(self.source.fault_of_all(small_graphs.reason_of(error))) if told else None
        try:
            found = self._first_bad()
            return None if found is None else RunError(self._fault(*found))
        except RunError as fault:
            return fault

    def in_order(self, size: int, used: int | None = None, start: int = 0) -> Any:
        """Return the examples that may be used, in the order of the files, as batches of the current graph.

        Args:
            size: The number of examples in a batch; the last may be smaller.
            used: How many examples of the stream have been used, of which only those are returned that may be
                among them; None for all.
        """
        first, stop = self._used()
        if used is not None and not any(isinstance(each, Bucket) for each in self.transforms):
            reached = used + sum(each.buffer for each in self.transforms if isinstance(each, Shuffle))
            stop = first + reached if stop is None else min(stop, first + reached)
        batches = self._records(first + start, stop).batched(size, drop_remainder=False)
        return batches.map(without_autograph(self._wanted_only))

    def where(self, number: int) -> Where:
        """Return the place of an example by its number among those that `in_order` returns."""
        return self.source.where(self._used()[0] + number)

    def where_holding(self, number: int, value: int, inputs: Collection[str]) -> Where:
        """Return the place of an example, and of the tensor that feeds a value if it is one alone."""
        index = self._used()[0] + number
        values, now = small_graphs.first_element(lambda: self._decoded(index)) or {}, self._names_now()
        held = [name for name, each in values.items() if now[name] in inputs and np.any(each == value)]
        return self.source.where_in(index, held[0]) if len(held) == 1 else self.source.where(index)

    def _names_now(self) -> dict[str, str]:
        """Return the names that the tensors of the source have after all transforms."""
        now = {each.name: each.name for each in self.source.fields}
        for change in self._changes():
            if isinstance(change, Rename):
                now = {name: change.after(known) for name, known in now.items()}
        return now

    def is_zero(self, name: str) -> bool:
        """Whether a tensor is zero in every example."""

        def others() -> Any:
            batches = self.in_order(self._passes.chunk)
            return batches.filter(without_autograph(lambda each: tf.reduce_any(tf.not_equal(each[name], 0))))

        return small_graphs.first_element(others) is None

    def not_finite(
        self, consequence: str, used: int | None = None, *, warns: bool = False
    ) -> Diagnostic | None:
        """Say which number of the data is infinite or not a number; None if all are finite.

        Args:
            consequence: What has come of it, as a sentence.
            used: How many examples have been used, among which the number is; None if that is not known.
        """
        names = [each.name for each in self.fields if each.dtype in FLOATS and self._may_be_infinite()]
        if not names:
            return None
        chunk = self._passes.chunk

        def strange(tensors: dict[str, Any]) -> Any:
            parts = [tf.math.is_finite(tensors[name]) for name in names]
            flat = [tf.reduce_all(each, axis=list(range(1, each.shape.rank))) for each in parts]
            return tf.logical_not(tf.reduce_all(tf.stack(flat), axis=0))

        def numbered(at: Any, each: Any) -> Any:
            return {"number": at * chunk + tf.argmax(tf.cast(each, tf.int32))}

        def first() -> Any:
            marked = self.in_order(chunk, used).map(without_autograph(strange)).enumerate()
            found = marked.filter(without_autograph(lambda _, each: tf.reduce_any(each)))
            return found.map(without_autograph(numbered))

        try:
            found = small_graphs.first_element(first)
        except small_graphs.FAILURES:
            return None  # a record that cannot be read, of which the run has not told
        if found is None:
            return None
        return self._where_not_finite(self._used()[0] + int(found["number"]), names, consequence, warns=warns)

    def _may_be_infinite(self) -> bool:
        """Whether the inputs may get numbers that are not finite."""
        narrow = any(isinstance(each, Cast) and each.dtype == "float16" for each in self.transforms)
        floats = any(each.dtype in FLOATS for each in self.source.fields)
        scaled = any(isinstance(each, Scale) for each in self.transforms)
        return narrow or (floats and (scaled or not self.source.finite))

    def _where_not_finite(
        self, index: int, names: Sequence[str], consequence: str, *, warns: bool
    ) -> Diagnostic | None:
        """Say which tensor of an example is not finite: of the source, or what a transform makes of it."""
        values, now = small_graphs.first_element(lambda: self._decoded(index)) or {}, self._names_now()
        for name, value in values.items():
            found = _not_finite(value[0]) if now[name] in names else None
            if found is not None:
                return errors.not_finite(
                    self.source.where_in(index, name), found=found, consequence=consequence, warns=warns
                )
        for change in self._changes():
            values = _changed(change, values)
            for name, value in values.items():
                found = _not_finite(value[0])
                if found is not None:
                    where, words = self.source.where(index), f"`{change.call.name}` makes `{name}` infinite"
                    return errors.not_finite(
                        where, found=f"{words}: {found}", consequence=consequence, warns=warns
                    )
        return None

    def _first_bad(self) -> tuple[int, str] | None:
        """Find the first example that cannot be read: in chunks, then one by one in the chunk that fails."""
        start, stop = self._used()
        chunk = 1 if self.source.per_record else self._passes.chunk
        found = small_graphs.find_first_failure(
            lambda: self._records(start, stop).batched(chunk, drop_remainder=False).prefetch(2)
        )
        if found is None:
            return None
        begin = start + found[0] * chunk
        if chunk == 1:
            return begin, found[1]
        single = small_graphs.find_first_failure(
            lambda: self._records(begin, begin + chunk).batched(1, drop_remainder=False)
        )
        return None if single is None else (begin + single[0], single[1])

    def _used(self) -> tuple[int, int | None]:
        """Return the range of records that are used, as far as the transforms before a shuffle tell."""
        return used_rows(self.transforms)

    def _records(self, start: int, stop: int | None) -> Examples:
        """Return records `start` to `stop` in the order of the files, with all changes."""
        records = self.source.records().skip(start)
        records = records if stop is None else records.take(max(stop - start, 0))
        return Examples(records, self.source, tuple(self._changes()), ragged=self.source.ragged)

    def _changes(self) -> list[Change]:
        return [each for each in self.transforms if isinstance(each, Change)]

    def _fault(self, index: int, reason: str) -> Diagnostic:
        """Say whether the source or a transform refuses example `index`, and why."""
        if self.source.failures:
            return self.source.failures[0]
        try:
            values = small_graphs.first_element(lambda: self._decoded(index))
        except small_graphs.FAILURES as error:
            return self.source.fault(index, small_graphs.reason_of(error))
        where = self.source.where(index)
        for change in self._changes() if values else ():
            fault = change.fault(where, values or {})
            if fault is not None:
                return fault
            values = _changed(change, values or {})
        return errors.unexplained(where, reason=reason)

    def _decoded(self, index: int) -> Any:
        """Return example `index` by itself, as the source gives it."""
        record = self.source.records().skip(index).take(1)
        examples = Examples(record, self.source, ragged=self.source.ragged)
        return examples.batched(1, drop_remainder=False).map(without_autograph(_filled))

    @property
    def _where(self) -> Where:
        """The split, or the file that `predict` reads in its place, which is nowhere in the spec."""
        call = self.split.span or self.source.span
        return Where(self.split.name if call is not None else self.source.where(0).path, call=call)

    def nothing(self) -> Diagnostic:
        """Return the diagnostic about a pass without an example."""
        count = self.source.count()
        chosen = any(isinstance(each, Choice) for each in self.transforms)
        if count == 0 or not chosen:
            return errors.empty(self._where, what="there is no example")
        of = "its" if count is None else f"the {count:,}"
        return errors.empty(self._where, what=f"none of {of} examples is left after the transforms")

    def _emptied(self, reader: str) -> Diagnostic:
        """Return the diagnostic about a pass that has no example for a reader, though the first one had."""
        whom = f" for {reader}" if reader else ""
        if not self.source.unrepeatable:
            return errors.empty(
                self._where, what=f"there is no example{whom} any more: the files have changed"
            )
        reason = f"gives no example{whom} when it is called again"
        return errors.python_function(evolve(self.source.where(0), place=""), reason=reason)


def _seed(options: StreamOptions, steps: Sequence[Step]) -> int:
    """Return the seed of shuffles without one of their own, the same in every process if it must be.

    It must if shards are cut from a shuffled order.
    """
    if options.seed is not None:
        return options.seed
    at = next((at for at, each in enumerate(steps) if isinstance(each, Shard)), 0)
    shared = options.deterministic or any(isinstance(each, Shuffle) for each in steps[:at])
    return 0 if shared else secrets.randbits(31)


def _not_finite(value: np.ndarray) -> str | None:
    """Return the first number of an array that is infinite or none, in words; None if there is none."""
    if value.dtype.name not in FLOATS:
        return None
    wide = np.asarray(value, np.float64)
    places = np.argwhere(~np.isfinite(wide))
    if not len(places):
        return None
    at = tuple(int(each) for each in places[0])
    return f"the number{f' at {list(at)}' if at else ''} is {wide[at]}"


def _filled(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with ragged tensors filled up, which changes nothing in a batch of one example."""
    return {
        name: each.to_tensor() if isinstance(each, tf.RaggedTensor) else each
        for name, each in tensors.items()
    }


def _changed(change: Change, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    changed: dict[str, np.ndarray] = small_graphs.evaluate(
        lambda: change.apply({name: tf.constant(value) for name, value in values.items()})
    )
    return changed
