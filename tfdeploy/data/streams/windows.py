"""Windows over the rows of a source as examples: `window(size, shift, stride, horizon)`.

They take the place of the source, so that they are numbered, shuffled, shared and skipped as other examples
are. The rows are read once for many windows, and no window has rows of two files.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Self

import tensorflow as tf
from attrs import evolve

from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data import small_graphs
from tfdeploy.data.arguments import Field, Tensors
from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.base import FileSource, PythonOnly, Source
from tfdeploy.data.streams.order import bytes_of, mapped
from tfdeploy.data.transforms.changes import Transform
from tfdeploy.data.transforms.table import Window, used_rows

ROWS, WINDOW_BYTES = 1024, 1 << 20


def over_windows(source: Source, transforms: Sequence[Transform]) -> tuple[Source, list[Transform]]:
    """Return what a split reads and the transforms that are left: windows over the source if it has any."""
    at = next((at for at, each in enumerate(transforms) if isinstance(each, Window)), None)
    if at is None:
        return source, list(transforms)
    window = transforms[at]
    assert isinstance(window, Window)
    kind = WindowsOfFiles if isinstance(source, FileSource) else Windows
    return kind(source, window, used_rows(transforms[:at])), list(transforms[at + 1 :])


class Windows(Source):
    """The windows over the rows `used` of a source, which are one series."""

    gives_tensors = True

    def __init__(self, rows: Source, window: Window, used: tuple[int, int | None]) -> None:
        super().__init__(rows.call, rows.context)
        self.rows, self.window, self.used = rows, window, used
        self.finite, self.unrepeatable = rows.finite, rows.unrepeatable
        self.asked, self.failures = rows.asked, rows.failures
        before = {each.name: each for each in rows.fields}
        for name in window.labels:
            window.given.tensor(name, before, "label")
        self.fields = tuple(self._field(each) for each in rows.fields)

    def _field(self, row: Field) -> Field:
        if None in row.shape:
            reason = f"`{row.name}` is {row.words}, and the rows of a series have the same size"
            raise self.window.refuse(reason)
        steps = self.window.rows(row.name)
        return evolve(row, shape=(*((len(steps),) if isinstance(steps, range) else ()), *row.shape))

    def read_by(self, reader: str) -> Self:
        """Return these windows for one of several readers."""
        own = super().read_by(reader)
        own.rows = self.rows.read_by(reader)
        return own

    @property
    def needs_python(self) -> PythonOnly | None:
        """Why the rows must be read in the process of the client."""
        return self.rows.needs_python

    def counts(self) -> tuple[int, ...] | None:
        """Return the number of windows of each series; None if it is not known."""
        series = self._series()
        return None if series is None else tuple(self.window.count(len(each)) for each in series)

    def count(self) -> int | None:
        """Return the number of all windows."""
        counts = self.counts()
        return None if counts is None else sum(counts)

    def _series(self) -> list[range] | None:
        """Return the rows of each series that are used; None if the number of rows is not known."""
        count = self.rows.count()
        return None if count is None else [range(count)[slice(*self.used)]]

    def records(self) -> Any:
        """Return the windows, in the order of the rows."""
        start, stop = self.used
        rows = self.rows.records().skip(start)
        return self._over(rows if stop is None else rows.take(max(stop - start, 0)))

    def _over(self, rows: Any) -> Any:
        """Return the windows of a series, of whose rows as many are decoded at once as many windows need."""
        shift, reach = self.window.shift, self.window.reach
        if self.rows.per_record:
            rows = mapped(rows, self.rows.decode)
        many = max(max(ROWS, 4 * reach) // shift, 1)
        few = max(1, min(many, WINDOW_BYTES // max(bytes_of(self.fields), 1)))

        def at_once(*parts: Any) -> Any:
            return tf.data.Dataset.zip(parts[0] if len(parts) == 1 else parts).batch(
                (many - 1) * shift + reach
            )

        def decoded(batch: Any) -> Any:
            return batch if self.rows.per_record else self.rows.decode(batch)

        def cut(tensors: Tensors) -> Any:
            count = (tf.shape(next(iter(tensors.values())), tf.int64)[0] - reach) // shift + 1

            def some(first: Any) -> Tensors:
                return self._cut(tensors, tf.range(first, tf.minimum(first + few, count)))

            return tf.data.Dataset.range(0, count, few).map(without_autograph(some))

        chunks = rows.window((many - 1) * shift + reach, shift=many * shift)
        chunks = mapped(chunks.flat_map(without_autograph(at_once)), decoded)
        return chunks.flat_map(without_autograph(cut)).unbatch()

    def _cut(self, tensors: Tensors, windows: Any) -> Tensors:
        """Return the windows of the given numbers from a run of rows."""
        firsts = windows * self.window.shift

        def of(name: str) -> Any:
            rows = self.window.rows(name)
            return (
                firsts + rows
                if isinstance(rows, int)
                else firsts[:, None] + tf.range(rows.start, rows.stop, rows.step, tf.int64)
            )

        return {name: tf.gather(tensor, of(name)) for name, tensor in tensors.items()}

    def check(self) -> None:
        """Check the rows, and that each series has as many as a window takes."""
        self.rows.check()
        reach = self.window.reach
        for rows in self._series() or ():
            if 0 < len(rows) < reach:
                found, wanted = f"a series of {len(rows)} rows", f"at least {reach}, which a window takes"
                where = evolve(self.rows.where(rows[0]), place="", span=None)
                raise RunError(errors.wrong_shape(where, found=found, wanted=wanted))

    def _first_row(self, index: int) -> int:
        """Return the number of the row with which window `index` begins."""
        for rows in self._series() or ():
            count = self.window.count(len(rows))
            if index < count:
                return rows[index * self.window.shift]
            index -= count
        return self.used[0] + index * self.window.shift

    def where(self, index: int) -> Where:
        """Return the place of the first row of window `index`."""
        where = self.rows.where(self._first_row(index))
        return evolve(where, place=f"the window from {where.place} on") if where.place else where

    def words_for(self, name: str) -> str:
        """Return what a tensor is in the rows."""
        return self.rows.words_for(name)

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Say what is wrong with the first row, from window `index` on, that cannot be read."""
        first = self._first_row(index)

        def rows() -> Any:
            records = self.rows.records().skip(first)
            return mapped(records if self.rows.per_record else records.batch(1), self.rows.decode)

        found = small_graphs.find_first_failure(rows)
        return super().fault(index, reason) if found is None else self.rows.fault(first + found[0], found[1])

    def fault_of_all(self, reason: str) -> Diagnostic:
        """Return the diagnostic about a row of which the number is not known."""
        return self.rows.fault_of_all(reason)


class WindowsOfFiles(Windows, FileSource):
    """The windows over a source of files, each of which is a series."""

    rows: FileSource

    def counts(self) -> tuple[int, ...]:
        """Return the number of windows of each file."""
        return tuple(self.window.count(len(each)) for each in self._series())

    def count(self) -> int:
        """Return the number of all windows."""
        return sum(self.counts())

    def _series(self) -> list[range]:
        start, stop = self.used
        series, first = [], 0
        for count in self.rows.counts():
            last = first + count
            series.append(range(max(start, first), last if stop is None else min(stop, last)))
            first = last
        return series

    def records(self, files: Sequence[int] | None = None) -> Any:
        """Return the windows of some files, or of all."""
        series, firsts = self._series(), [0, *accumulate(self.rows.counts())]
        windows = None
        for number in range(len(series)) if files is None else files:
            skipped = series[number].start - firsts[number]
            rows = self.rows.records([number]).skip(skipped).take(len(series[number]))
            found = self._over(rows)
            windows = found if windows is None else windows.concatenate(found)
        return windows
