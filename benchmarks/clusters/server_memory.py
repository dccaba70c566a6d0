"""The peak memory of servers that hold a large table in pieces, as parts of what they hold.

`python -m benchmarks.clusters.server_memory [MIB] [OPTIMIZER ...]`: a table of MIB (default 2048) on two
servers is initialised, trained for a few steps, saved and exported; then the run goes on, so that all is
restored. The peak is that of each server as the kernel counts it, less that of the same run with a table of
1000 rows, over the bytes of the server's own piece with its slots.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import ServerMemory
from benchmarks.race.run import ROOT, environment

COLUMNS = 64
SERVERS = 2
SLOTS = {"SGD(0.1)": 0, "Adagrad(0.1)": 1, "Adam(0.1, lazy = true)": 2}
FEW_ROWS = 1000
SIZE = 2 << 30
PATIENCE = 1800
SPEC = """
tfdeploy = 1
model "table" {{
  x = input(int32, [8])
  y = input(int32, [])
  logits = x -> Embedding({rows}, {columns}) -> GlobalAveragePooling1D() -> Dense(10)
  loss = [y, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}
data {{
  train = synthetic(256, x = feature(int32, [8], classes = {rows}), y = feature(int32, classes = 10))
}}
devices {{
  job "ps" {{ tasks = {servers} }}
  job "worker" {{ tasks = 1 }}
}}
clones {{ batch = 64 }}
place {{
  variables -> ps[0]
  variables("*/embeddings") -> sharded(ps[*])
}}
update {{ mode = async, optimizer = {optimizer} }}
train {{ steps = {steps}, seed = 1, summaries = none, directory = "run", checkpoint_every = 1h }}
"""


def measure(size: int, optimizer: str) -> ServerMemory:
    """Return the peaks for a table.

    Args:
        size: The bytes of the table.
        optimizer: The optimizer, one of `SLOTS`.
    """
    rows = size // (4 * COLUMNS)
    few, many = (_peaks(each, optimizer) for each in (FEW_ROWS, rows))
    own = rows * COLUMNS * 4 * (1 + SLOTS[optimizer]) // SERVERS
    return ServerMemory(
        optimizer, own, many[0] - few[0], many[1] - few[1], datetime.now(UTC).date().isoformat()
    )


def run_server_memory(*, full: bool = False) -> Iterator[ServerMemory]:
    """Yield the peaks for a table of 2 GiB: under gradient descent, in a full run under all optimizers."""
    for optimizer in SLOTS if full else [*SLOTS][:1]:
        yield measure(SIZE, optimizer)


def _peaks(rows: int, optimizer: str) -> tuple[int, int]:
    """Return the largest peak of a server, in a run from the start and in one that goes on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, second = (_peak(folder, rows, optimizer, steps) for steps in (4, 8))
        return first, second


def _peak(folder: Path, rows: int, optimizer: str, steps: int) -> int:
    spec = folder / "spec.tfdeploy"
    spec.write_text(
        SPEC.format(rows=rows, columns=COLUMNS, servers=SERVERS, optimizer=optimizer, steps=steps)
    )
    command = [sys.executable, "-m", "tfdeploy", "compile-and-run", str(spec), "--resume", "auto"]
    paths = {**environment(), "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(command, cwd=folder, env=paths, stdout=output, stderr=output)
        peaks: dict[str, int] = {}
        ends = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < ends:
            peaks |= _servers(str(spec))
            time.sleep(0.2)
    if process.wait(timeout=1) != 0:
        raise SystemExit((folder / "output").read_text()[-2000:])
    return max(peaks.values())


def _servers(spec: str) -> dict[str, int]:
    """Return the peak so far, in bytes, of each process that serves a task of `spec`."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            command = (each / "cmdline").read_text()
            if spec in command and "\0ps:" in command:
                lines = (each / "status").read_text().splitlines()
                peak = next(line for line in lines if line.startswith("VmHWM:"))
                found[each.name] = int(peak.split()[1]) * 1024
        except (OSError, StopIteration):
            continue  # it has ended
    return found


def main(mib: str = "2048", *optimizers: str) -> None:
    """Print the peaks as multiples of the bytes that a server keeps.

    Args:
        mib: The size of the table in MiB.
        *optimizers: The optimizers, or none for all of `SLOTS`.
    """
    for optimizer in optimizers or SLOTS:
        found = measure(int(mib) << 20, optimizer)
        parts = [f"{each / found.own:.2f}" for each in (found.fresh, found.resumed)]
        print(f"{optimizer}: own {found.own >> 20} MiB; saved {parts[0]}, restored {parts[1]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
