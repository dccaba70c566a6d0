"""Large files are read in little memory."""

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from tests import forked

WORKER = Path(__file__).with_name("memory_of_reading.py")
WIDTH = 16384


class Holes:
    """A file in which stretches of zeros are left out, so that they take no room on the disk."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        """Write `data`, or go over it where it is long and all zeros."""
        if len(data) > WIDTH and not np.any(np.frombuffer(data, np.uint8)):
            self._file.seek(len(data), os.SEEK_CUR)
            return len(data)
        return self._file.write(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def write_npz(path: Path, examples: int) -> None:
    """Write an array of `examples` rows of 64 KiB: zeros, but for a one at the end of the last."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (examples, WIDTH)}
    piece = bytes(1 << 24)
    with (
        path.open("wb") as file,
        zipfile.ZipFile(Holes(file), "w") as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(member, header)
        left = examples * WIDTH * 4 - 4
        while left:
            left -= member.write(piece[: min(left, len(piece))])
        member.write(np.float32(1).tobytes())


def read(folder: Path, kind: str, batch: int) -> tuple[int, float, int]:
    """Return examples, sum and peak of memory in bytes of reading the data of `folder`."""
    done = forked.run([sys.executable, str(WORKER), str(folder), kind, str(batch)], text=True)
    assert (done.returncode, done.stderr) == (0, "")
    count, total, peak = done.stdout.split()
    return int(count), float(total), int(peak)


def write_csv(path: Path, examples: int) -> None:
    """Write a table of so many rows, some thousands at a time."""
    with path.open("w") as file:
        file.write(",".join(f"c{each}" for each in range(8)) + "\n")
        for _ in range(examples // 2000):
            file.write("0,1,0,0,0,0,0,0\n" * 2000)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "write", "batch", "few", "many", "megabytes"),
    [
        ("npz", write_npz, 64, 48, 49_152, 256),
        pytest.param("csv", write_csv, 1024, 2000, 500_000, 64, marks=pytest.mark.slow),
    ],
)
def test_large_files_take_little_memory(
    tmp_path: Path,
    kind: str,
    write: Callable[[Path, int], None],
    batch: int,
    few: int,
    many: int,
    megabytes: int,
) -> None:
    """Three GiB of arrays, and half a million rows, are read to the last in little more than a small file."""
    peaks = []
    for examples in (few, many):
        file = tmp_path / f"{examples}" / f"data.{kind}"
        file.parent.mkdir()
        write(file, examples)
        assert kind == "csv" or file.stat().st_size > examples * WIDTH * 4
        count, total, peak = read(file.parent, kind, batch)
        assert (count, total) == (examples, 1.0 if kind == "npz" else examples)
        peaks.append(peak)
        file.unlink()
    assert peaks[1] - peaks[0] < megabytes << 20
