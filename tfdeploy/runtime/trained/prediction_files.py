"""Files of predictions: CSV with a column per number, or a NumPy archive with an array for each output."""

from __future__ import annotations

import csv
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import chain
from math import prod
from operator import mod
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
MORE_DIGITS = 17  # the same for float64


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
        plain = {name: _plain(each) for name, each in outputs.items()}
        self.count += len(next(iter(plain.values())))
        self.keep(plain)

    def keep(self, outputs: Mapping[str, Any]) -> None:
        """Write the outputs of a batch, or keep them until the end; their types are NumPy's own."""
        raise NotImplementedError

    def finish(self) -> None:
        """Write what has been kept."""
        raise NotImplementedError


def _plain(array: Any) -> Any:
    """Return an array of a type that NumPy has without others: texts for bytes, float32 for bfloat16."""
    if array.dtype == object:
        words = [each.decode("utf-8", "backslashreplace") for each in array.ravel()]
        return np.array(words, dtype=np.str_).reshape(array.shape)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


class CsvPredictions(PredictionFile):
    """A CSV file with a column for each number of each output, in the order of its elements.

    If batches can have different sizes, rows are written at the end, when the largest size is known.
    """

    def __init__(self, shapes: Mapping[str, Shape], file: IO[bytes]) -> None:
        super().__init__(shapes)
        self._file = TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._has_header = False
        self._kept: list[Mapping[str, Any]] = []

    def keep(self, outputs: Mapping[str, Any]) -> None:
        """Write the rows of a batch, or keep them if further batches may have other sizes."""
        if any(None in shape for shape in self.shapes.values()):
            self._kept.append(outputs)
        else:
            self._write(outputs)

    def _write(self, outputs: Mapping[str, Any]) -> None:
        if not self._has_header:
            self._write_header({name: each.shape[1:] for name, each in outputs.items()})
        tables = [each.reshape(len(each), prod(each.shape[1:])) for each in outputs.values()]
        styles = [_style(each.dtype) for each in tables for _ in range(each.shape[1])]
        parts = zip(*(each.tolist() for each in tables), strict=True)
        rows = (tuple(chain.from_iterable(each)) for each in parts)
        if "%s" in styles:
            self._writer.writerows(map(mod, styles, each) for each in rows)
        else:  # several times faster
            line = ",".join(styles) + "\n"
            self._file.writelines(line % each for each in rows)

    def _write_header(self, shapes: Mapping[str, Sequence[int]]) -> None:
        self._writer.writerow(column for name, shape in shapes.items() for column in _columns(name, shape))
        self._has_header = True

    def finish(self) -> None:
        """Write what has been kept, and the header of a table without rows."""
        for batch in _of_one_size(self._kept):
            self._write(batch)
        if not self._has_header and all(None not in shape for shape in self.shapes.values()):
            self._write_header(self.shapes)  # type: ignore[arg-type] # no size is None
        self._file.detach()


def _style(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "f":
        return f"%.{MORE_DIGITS if dtype == np.float64 else DIGITS}g"
    return "%d" if dtype.kind in "biu" else "%s"


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

    def keep(self, outputs: Mapping[str, Any]) -> None:
        """Store a batch until the end."""
        self._batches.append(outputs)

    def finish(self) -> None:
        """Write the arrays."""
        batches = _of_one_size(self._batches)
        with ZipFile(self._file, "w") as archive:
            for name in self.shapes:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    whole = np.concatenate([each[name] for each in batches])
                    np.lib.format.write_array(member, whole, allow_pickle=False)
            archive.comment = GENERATOR.encode()


def _of_one_size(batches: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return batches of outputs with zeros behind those that are smaller, along each axis but the first."""
    names = batches[0].keys() if batches else ()
    largest = {name: np.max([each[name].shape for each in batches], axis=0) for name in names}
    return [{name: _filled(each[name], largest[name]) for name in names} for each in batches]


def _filled(array: Any, size: Any) -> Any:
    """Return an array with zeros, or empty texts, behind it up to a size along each axis but the first."""
    if array.shape[1:] == tuple(size[1:]):
        return array
    whole = np.zeros((len(array), *size[1:]), array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole
