"""Examples per second of reading files, beside pipelines that are written by hand: `make bench`.

`python -m benchmarks.reading [FILES ...] [--turns N]` measures some kinds of files alone and prints a table.
All readers shuffle, batch and prefetch, give the same tensors, and read files that this program has written.
They share one process and take turns of about a second. A reader is closed after its turn, and the first
batches of a turn do not count.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from benchmarks.figures import Reading

if TYPE_CHECKING:
    from benchmarks.reading.readers import Make

TURNS = 9
SECONDS = 1.0
FIRST = 3  # batches of a turn that do not count


def run_readings(what: tuple[str, ...] = (), turns: int = TURNS, seconds: float = SECONDS) -> list[Reading]:
    """Return the measurements of every reader.

    Args:
        what: The kinds of files, or none for all of them.
        turns: The number of turns of each reader.
        seconds: The length of a turn.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from benchmarks.reading.readers import FILES

    found: list[Reading] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, files in FILES.items():
            if what and name not in what:
                continue
            files.write(Path(folder))
            found += _race(name, files.batch, files.readers(Path(folder)), turns, seconds)
            click.echo(f"{name}: {turns} turns", err=True)
    return found


def _race(name: str, batch: int, makers: Mapping[str, Make], turns: int, seconds: float) -> list[Reading]:
    rates: dict[str, list[float]] = {reader: [] for reader in makers}
    cpu: dict[str, list[float]] = {reader: [] for reader in makers}
    for turn in range(turns + 1):
        # Every turn begins with another reader, and every other one runs backwards, so that nobody has the
        # better place or the same reader before it: what was read just before costs up to a twentieth.
        first = turn % len(makers)
        order = [*list(makers)[first:], *list(makers)[:first]]
        for reader in order[:: 1 if turn % 2 else -1]:
            rate, spent = _turn(makers[reader], batch, seconds)
            if turn:
                rates[reader].append(rate)
                cpu[reader].append(spent)
    date = datetime.now(UTC).date().isoformat()
    return [Reading(name, reader, date, tuple(rates[reader]), tuple(cpu[reader])) for reader in makers]


def _turn(make: Callable[[], Any], batch: int, seconds: float) -> tuple[float, float]:
    """Read for a while, and return the examples per second and the seconds of processor time per example."""
    import tensorflow as tf

    with tf.Graph().as_default():
        iterator = tf.compat.v1.data.make_initializable_iterator(make())
        following = iterator.get_next()
        with tf.compat.v1.Session() as session:
            session.run(iterator.initializer)
            # As in training, the tensors stay in TensorFlow.
            step = session.make_callable(tf.group(*tf.nest.flatten(following)))
            for _ in range(FIRST):
                step()
            began, cpu, count = time.perf_counter(), time.process_time(), 0
            while time.perf_counter() - began < seconds:
                step()
                count += batch
            return count / (time.perf_counter() - began), (time.process_time() - cpu) / count


@click.command()
@click.argument("what", nargs=-1)
@click.option("--turns", default=TURNS, show_default=True, type=click.IntRange(1))
def main(what: tuple[str, ...], turns: int) -> None:
    """Measure the readers of some kinds of files, or of all, and print a table."""
    readings = run_readings(what, turns)
    for each in readings:
        ours = next(other for other in readings if (other.files, other.reader) == (each.files, "ours"))
        ratio = median(a / b for a, b in zip(ours.rates, each.rates, strict=True))
        spent = median(b / a for a, b in zip(ours.cpu, each.cpu, strict=True))
        click.echo(
            f"{each.files:16} {each.reader:30} {median(each.rates):9,.0f}/s {median(each.cpu) * 1e6:8,.1f} us"
            f"   ours / this: {ratio:5.2f}   by processor time: {spent:5.2f}"
        )
