"""Large files are read in little memory."""

from __future__ import annotations

import os
import sys
import zipfile
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


@pytest.mark.full
def test_an_npz_of_three_gigabytes_takes_little_memory(tmp_path: Path) -> None:
    """Three GiB of arrays are read to the last example in less than 256 MiB more than three MiB."""
    found = []
    for name, examples in (("small", 48), ("large", 49152)):
        folder = tmp_path / name
        folder.mkdir()
        write_npz(folder / "data.npz", examples)
        assert (folder / "data.npz").stat().st_size > examples * WIDTH * 4
        found.append(read(folder, "npz", 64))
        (folder / "data.npz").unlink()
    (small, small_sum, small_peak), (large, large_sum, large_peak) = found
    assert (small, large, small_sum, large_sum) == (48, 49152, 1.0, 1.0)
    assert large_peak - small_peak < 256 << 20


@pytest.mark.full
@pytest.mark.slow
def test_a_table_of_half_a_million_rows_takes_little_memory(tmp_path: Path) -> None:
    """Half a million rows are read to the last in less than 64 MiB more than two thousand."""
    header = ",".join(f"c{each}" for each in range(8)) + "\n"
    rows = "0,1,0,0,0,0,0,0\n" * 2000
    found = []
    for name, repeats in (("small", 1), ("large", 250)):
        folder = tmp_path / name
        folder.mkdir()
        with (folder / "data.csv").open("w") as file:
            file.write(header)
            for _ in range(repeats):
                file.write(rows)
        found.append(read(folder, "csv", 1024))
        (folder / "data.csv").unlink()
    (small, small_sum, small_peak), (large, large_sum, large_peak) = found
    assert (small, large, small_sum, large_sum) == (2000, 500_000, 2000.0, 500_000.0)
    assert large_peak - small_peak < 64 << 20
