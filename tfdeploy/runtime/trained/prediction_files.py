"""Files of predictions: CSV with a column per number, or a NumPy archive with one array."""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import IO, TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np

from tfdeploy.runtime.records.files import replacing
from tfdeploy.runtime.records.outputs import GENERATOR, link_target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIGITS = 9  # enough to distinguish any two float32 numbers


class PredictionFile:
    """A file of predictions that is being written; `count` is the number of examples so far."""

    def __init__(self, name: str, shape: tuple[int | None, ...]) -> None:
        self.name = name
        self.shape = shape
        self.count = 0

    @classmethod
    @contextmanager
    def open(cls, path: Path, name: str, shape: tuple[int | None, ...]) -> Iterator[PredictionFile]:
        """Open `path` for writing. It is replaced when the block ends without an error.

        Args:
            path: The file, `.csv` or `.npz`.
            name: The name of the output.
            shape: The shape of the output without the batch axis.
        """
        with replacing(link_target(path)) as beside, beside.open("w+b") as file:
            kind = NpzPredictions if path.suffix == ".npz" else CsvPredictions
            predictions = kind(name, shape, file)
            yield predictions
            predictions.finish()

    def add(self, outputs: Any) -> None:
        """Write the outputs of a batch."""
        self.count += len(outputs)


class CsvPredictions(PredictionFile):
    """A CSV file with a column for each number of the output, in the order of its elements."""

    def __init__(self, name: str, shape: tuple[int | None, ...], file: IO[bytes]) -> None:
        super().__init__(name, shape)
        self._file = file
        self._has_header = False

    def add(self, outputs: Any) -> None:
        """Write the rows of a batch."""
        super().add(outputs)
        if not self._has_header:
            self._file.write((",".join(self._columns(outputs.shape[1:])) + "\n").encode())
            self._has_header = True
        rows = np.asarray(outputs).reshape(len(outputs), -1)
        style = f"%.{DIGITS}g" if np.issubdtype(rows.dtype, np.floating) else "%d"
        np.savetxt(self._file, rows, fmt=style, delimiter=",")

    def _columns(self, shape: tuple[int, ...]) -> list[str]:
        if not shape:
            return [self.name]
        places = (np.unravel_index(at, shape) for at in range(prod(shape)))
        return [f"{self.name}_{'_'.join(map(str, place))}" for place in places]

    def finish(self) -> None:
        """Write the header of a table without rows."""
        if not self._has_header and None not in self.shape:
            self._file.write((",".join(self._columns(self.shape)) + "\n").encode())  # type: ignore[arg-type]


class NpzPredictions(PredictionFile):
    """A NumPy archive with one array, under the name of the output."""

    def __init__(self, name: str, shape: tuple[int | None, ...], file: IO[bytes]) -> None:
        super().__init__(name, shape)
        self._file = file
        self._batches: list[Any] = []

    def add(self, outputs: Any) -> None:
        """Store a batch until the end."""
        super().add(outputs)
        self._batches.append(outputs)

    def finish(self) -> None:
        """Write the array."""
        arrays: dict[str, Any] = {self.name: np.concatenate(self._batches)}
        np.savez(self._file, **arrays)
        with ZipFile(self._file, "a") as archive:
            archive.comment = GENERATOR.encode()
