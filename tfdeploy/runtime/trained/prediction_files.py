"""Files of predictions: CSV with a column per number, or a NumPy archive with an array for each output."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain
from math import prod
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from zipfile import ZipFile

import numpy as np

from tfdeploy.runtime.records.files import replacing
from tfdeploy.runtime.records.outputs import GENERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

Shape: TypeAlias = "tuple[int | None, ...]"

DIGITS = 9  # enough to distinguish any two float32 numbers


class PredictionFile:
    """A file of predictions that is being written.

    Attributes:
        shapes: The shape of each output without the batch axis, by its name; None for an unknown size.
        count: The number of examples so far.
    """

    def __init__(self, shapes: Mapping[str, Shape]) -> None:
        self.shapes = shapes
        self.count = 0

    @classmethod
    @contextmanager
    def open(cls, path: Path, shapes: Mapping[str, Shape]) -> Iterator[PredictionFile]:
        """Open `path` for writing. It is replaced when the block ends without an error.

        Args:
            path: The file, `.csv` or `.npz`.
            shapes: The shape of each output without the batch axis, by its name.
        """
        with replacing(path, follow=True) as beside, beside.open("w+b") as file:
            kind = NpzPredictions if path.suffix == ".npz" else CsvPredictions
            predictions = kind(shapes, file)
            yield predictions
            predictions.finish()

    def add(self, outputs: Mapping[str, Any]) -> None:
        """Write the outputs of a batch, arrays by the names of the outputs."""
        self.count += len(next(iter(outputs.values())))


class CsvPredictions(PredictionFile):
    """A CSV file with a column for each number of each output, in the order of its elements.

    If batches can have different sizes, rows are written at the end, when the largest size is known.
    """

    def __init__(self, shapes: Mapping[str, Shape], file: IO[bytes]) -> None:
        super().__init__(shapes)
        self._file = file
        self._has_header = False
        self._kept: list[Mapping[str, Any]] = []

    def add(self, outputs: Mapping[str, Any]) -> None:
        """Write the rows of a batch, or keep them if further batches may have other sizes."""
        super().add(outputs)
        if any(None in shape for shape in self.shapes.values()):
            self._kept.append(outputs)
        else:
            self._write(outputs)

    def _write(self, outputs: Mapping[str, Any]) -> None:
        if not self._has_header:
            self._write_header({name: each.shape[1:] for name, each in outputs.items()})
        tables = [each.reshape(len(each), -1) for each in outputs.values()]
        styles = [_style(each.dtype) for each in tables for _ in range(each.shape[1])]
        line = ",".join(styles) + "\n"
        rows = zip(*(each.tolist() for each in tables), strict=True)
        self._file.writelines((line % tuple(chain.from_iterable(parts))).encode() for parts in rows)

    def _write_header(self, shapes: Mapping[str, Sequence[int]]) -> None:
        columns = [column for name, shape in shapes.items() for column in _columns(name, shape)]
        self._file.write((",".join(columns) + "\n").encode())
        self._has_header = True

    def finish(self) -> None:
        """Write what has been kept, and the header of a table without rows."""
        for batch in _of_one_size(self._kept):
            self._write(batch)
        if not self._has_header and all(None not in shape for shape in self.shapes.values()):
            self._write_header(self.shapes)  # type: ignore[arg-type] # no size is None


def _style(dtype: np.dtype[Any]) -> str:
    return f"%.{DIGITS}g" if np.issubdtype(dtype, np.floating) else "%d"


def _columns(name: str, shape: Sequence[int]) -> list[str]:
    """Return the names of the columns of an output."""
    if not shape:
        return [name]
    places = (np.unravel_index(at, shape) for at in range(prod(shape)))
    return [f"{name}_{'_'.join(map(str, place))}" for place in places]


class NpzPredictions(PredictionFile):
    """A NumPy archive with an array for each output, under its name."""

    def __init__(self, shapes: Mapping[str, Shape], file: IO[bytes]) -> None:
        super().__init__(shapes)
        self._file = file
        self._batches: list[Mapping[str, Any]] = []

    def add(self, outputs: Mapping[str, Any]) -> None:
        """Store a batch until the end."""
        super().add(outputs)
        self._batches.append(outputs)

    def finish(self) -> None:
        """Write the arrays."""
        batches = _of_one_size(self._batches)
        arrays: dict[str, Any] = {
            name: np.concatenate([each[name] for each in batches]) for name in self.shapes
        }
        np.savez(self._file, **arrays)
        with ZipFile(self._file, "a") as archive:
            archive.comment = GENERATOR.encode()


def _of_one_size(batches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return batches of outputs with zeros behind those that are smaller, along each axis but the first."""
    names = batches[0].keys() if batches else ()
    largest = {name: np.max([each[name].shape for each in batches], axis=0) for name in names}
    return [{name: _filled(each[name], largest[name]) for name in names} for each in batches]


def _filled(array: Any, size: Any) -> Any:
    """Return an array with zeros behind it up to a size along each axis but the first."""
    missing = [(0, 0), *((0, int(more)) for more in size[1:] - array.shape[1:])]
    return np.pad(array, missing) if any(more for _, more in missing) else array
