"""Rows per second of reading a CSV file: the csv source against tf.data.experimental.make_csv_dataset.

    .venv/bin/python benchmarks/csv_reading.py [repeats]

Writes the digits `repeats` times (default 200: 287,600 rows of 65 columns) to a temporary file, reads it
shuffled in batches of 64 as training does, alternating between the readers, and prints the best of three.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from compiler.graph.sources import StreamOptions, Wanted, open_split
from dsl import ir

DIGITS = Path(__file__).parents[1] / "examples" / "data" / "digits" / "train.csv"
BATCH, BUFFER, SECONDS = 64, 1024, 6.0


def ours(path: Path) -> Any:
    """Return batches of the csv source."""
    call = ir.Call("csv", (str(path),), {"image": "pixel_*", "digit": "digit"})
    split = ir.Split("train", call, (ir.Call("shuffle", (BUFFER,)),))
    wanted = [Wanted("image", "float32", (64,)), Wanted("digit", "int32", ())]
    stream = open_split(split, wanted, StreamOptions(path.parent, seed=1))
    return stream.batches(BATCH, repeat=True, drop_remainder=True)


def plain(path: Path) -> Any:
    """Return batches of TensorFlow's own reader, its columns stacked into an image."""
    batches = tf.data.experimental.make_csv_dataset(
        str(path),
        BATCH,
        label_name="digit",
        column_defaults=[0.0] * 64 + [0],
        shuffle_buffer_size=BUFFER,
        shuffle_seed=1,
        num_parallel_reads=2,
    )
    return batches.map(lambda columns, digit: {"image": tf.stack(list(columns.values()), 1), "digit": digit})


def rows_per_second(make: Callable[[Path], Any], path: Path) -> float:
    """Read for a while and return the rate, the first batch left out."""
    with tf.Graph().as_default():
        iterator = tf.compat.v1.data.make_initializable_iterator(make(path))
        following = iterator.get_next()
        with tf.compat.v1.Session() as session:
            session.run(iterator.initializer)
            step = session.make_callable([following["image"], following["digit"]])
            step()
            begun, rows = time.perf_counter(), 0
            while time.perf_counter() - begun < SECONDS:
                step()
                rows += BATCH
            return rows / (time.perf_counter() - begun)


def main(repeats: int) -> None:
    """Measure both."""
    header, body = DIGITS.read_text().split("\n", 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.csv"
        path.write_text(header + "\n" + body * repeats)
        found = {"csv source": 0.0, "make_csv_dataset": 0.0}
        for _ in range(3):
            found["csv source"] = max(found["csv source"], rows_per_second(ours, path))
            found["make_csv_dataset"] = max(found["make_csv_dataset"], rows_per_second(plain, path))
    for name, rate in found.items():
        print(f"{name:18} {rate:12,.0f} rows/s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
