"""Workers that come and go at random: the account of examples, and how long training stops for a change.

`python -m benchmarks.clusters.changes [CHANGES] [MOST] [SEED]`: starts a cluster of 2 to MOST workers on
loopback, lets CHANGES workers join, leave (SIGTERM) or be killed (SIGKILL), at times the chief, and ends it.
Each example adds one to a weight of its own, so that the weights of the last checkpoint tell how often each
has been used. Prints the changes and the median stop; fails if the account or the steps are not exact.
SIGTERM ends it after the change that is being made, with the same checks.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

import numpy as np
from attrs import define, field

EXAMPLES, BATCH, LEAST = 97, 2, 2
PATIENCE = 300.0
SPEC = f"""
tfdeploy = 1

model "account" {{
  number = input(int32, [])
  far = input(float32, [1])
  used = number -> Embedding({EXAMPLES}, 1, embeddings_initializer = "zeros", name = "used")
  loss = [far, used] -> MeanAbsoluteError()
}}
data {{
  train = npz("examples.npz") -> shuffle({EXAMPLES})
}}
devices {{
  job "worker" {{ tasks = {LEAST}..%d }}
}}
clones {{ batch = {BATCH} }}
update {{ optimizer = SGD({BATCH}.0), reduce = sum }}
train {{
  epochs = 1000000, log_every = 1000, summaries = none
  checkpoint_every = 2s, seed = 1, directory = "run"
}}
"""
TRAINS = re.compile(r"(\d+) workers train from step ([\d,]+) on(?:, after a stop of ([\d.]+) s)?: (.*)")


@define
class Cluster:
    """A cluster that trains.

    Attributes:
        folder: Its folder.
        process: The launcher.
        log: The file of its output.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    log: Path
    seen: int = field(default=0)

    @classmethod
    def start(cls, folder: Path, most: int) -> Cluster:
        """Start a cluster of `LEAST` to `most` workers in a folder."""
        numbers = np.arange(EXAMPLES, dtype=np.int32)
        np.savez(folder / "examples.npz", number=numbers, far=np.full((EXAMPLES, 1), 1e7, np.float32))
        (folder / "spec.tfdeploy").write_text(SPEC % most)
        log = folder / "log"
        with log.open("wb") as opened:
            command = [sys.executable, "-m", "tfdeploy", "compile-and-run", "spec.tfdeploy", "--launch"]
            process = subprocess.Popen(command, cwd=folder, stdout=opened, stderr=subprocess.STDOUT)
        return cls(folder, process, log)

    def generations(self) -> list[tuple[int, int, float | None]]:
        """Return the number of workers, the first step and the stop before it, of each generation so far."""
        return [
            (int(workers), int(step.replace(",", "")), None if stop is None else float(stop))
            for workers, step, stop, _ in (
                each.groups(None) for each in TRAINS.finditer(self.log.read_text())
            )
        ]

    def settle(self, quiet: float = 1.0) -> None:
        """Wait until there is another generation than when this was called last, and no more for a while."""
        end, since = time.monotonic() + PATIENCE, time.monotonic()
        found = self.seen
        while found <= self.seen or time.monotonic() - since < quiet:
            if (now := len(self.generations())) != found:
                found, since = now, time.monotonic()
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"nothing goes on:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)
        self.seen = found

    def workers(self) -> dict[int, int]:
        """Return the numbers of the processes of all tasks, by the numbers of the tasks.

        One that is just ending is waited for, because the launcher counts it until it has ended.
        """
        found, is_ending = {}, False
        for each in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            for child in each.read_text().split():
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                is_ending |= words == [b""]
                if b"--task" in words:
                    found[int(words[words.index(b"--task") + 1].split(b":")[1])] = int(child)
        if is_ending:
            time.sleep(0.05)
            return self.workers()
        return found

    def scale(self, tasks: int) -> None:
        """Ask the launcher for a number of tasks."""
        (self.folder / "run" / "scale.json").write_text(json.dumps({"job": "worker", "tasks": tasks}))

    def members(self) -> list[int]:
        """Return the tasks that train."""
        *_, last = TRAINS.finditer(self.log.read_text())
        return [int(each) for each in re.findall(r"worker:(\d+)", last[4])]

    def change(self, chance: random.Random, most: int) -> str:
        """Let a worker join, leave or be killed, the chief as any other, and return which."""
        train, there = self.members(), self.workers()
        while len(train) <= LEAST < len(there):
            self.settle()  # another is on its way
            train, there = self.members(), self.workers()
        spare = [each for each in train if each in there]
        kinds = ["join"] * (len(there) < most) + ["leave", "kill"] * (len(train) > LEAST)
        kind = chance.choice(kinds)
        if kind == "join":
            self.scale(len(there) + 1)
        elif kind == "leave":
            os.kill(there[chance.choice(spare)], signal.SIGTERM)
        else:
            os.kill(there[chance.choice(spare)], signal.SIGKILL)
        return kind

    def end(self) -> None:
        """End the run after a checkpoint."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def account_of(folder: Path) -> tuple[int, int, np.ndarray]:
    """Return step and examples of the last checkpoint of a run, and how often each example has been used."""
    import tensorflow as tf

    saved = folder / "run" / "checkpoints"
    manifest = max(saved.glob("*.json"), key=lambda each: json.loads(each.read_text())["step"])
    told = json.loads(manifest.read_text())
    reader = tf.train.load_checkpoint(str(manifest.with_suffix("")))
    name = next(each for each in reader.get_variable_to_shape_map() if each.startswith("used"))
    return told["step"], told["examples"], reader.get_tensor(name).ravel()


def require_exact(cluster: Cluster) -> tuple[int, int]:
    """Raise SystemExit if an example is used too often or not often enough; return step and examples."""
    step, examples, used = account_of(cluster.folder)
    generations = cluster.generations()
    ends = [first for _, first, _ in generations[1:]] + [step + 1]
    made = sum(
        (end - first) * workers * BATCH for (workers, first, _), end in zip(generations, ends, strict=True)
    )
    if used.sum() != examples or used.max() - used.min() > 1 or made != examples:
        raise SystemExit(
            f"step {step}: {examples} examples, {made} by the steps, {used.sum():.0f} by the weights,"
            f" each {used.min():.0f} to {used.max():.0f} times\n{cluster.log.read_text()[-4000:]}"
        )
    return step, examples


def main(changes: str = "200", most: str = "4", seed: str = "1") -> None:
    """Print what the changes come to."""
    chance, kinds = random.Random(int(seed)), Counter[str]()  # noqa: S311 no secret
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster.start(Path(folder), int(most))
        try:
            cluster.settle()
            while kinds.total() < int(changes) and not asked:
                kinds[cluster.change(chance, int(most))] += 1
                cluster.settle()
        finally:
            cluster.end()
        step, examples = require_exact(cluster)
        generations = cluster.generations()
    stops = [stop for _, _, stop in generations if stop is not None]
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(
        f"{sum(kinds.values())} changes ({told}), {len(generations)} generations: step {step},"
        f" {examples} examples, exact; median stop {median(stops):.2f} s, longest {max(stops):.2f} s"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
