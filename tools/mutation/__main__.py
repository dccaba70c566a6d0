"""Put a sample of small faults into the code, one at a time, and count how many the tests see.

`make mutants ARGS="--count 200 --seed 1"`. Each fault is tried against the fastest tests that run its line,
in a copy of the tree. A fault in a line that no test runs counts as not seen. A fault takes about ten
seconds.

mutmut and cosmic-ray start a new process for each fault, which imports TensorFlow, or keep all faults in
the process that runs the tests. Here each try is forked from a process that has TensorFlow loaded already,
and the commands that tests start as processes have the fault too, because it stands in a file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

from attrs import asdict, frozen

from tools.mutation import covering
from tools.mutation.mutants import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutation"
PACKAGES = ("compiler", "tfdeploy")
WIDTH = 60  # characters of a fault that are printed
PATIENCE = 300.0  # seconds; a fault that makes tests hang is seen


@frozen
class Verdict:
    """What became of a fault: `seen`, `hung`, `missed`, or `unrun` if no test runs its line."""

    path: str
    line: int
    was: str
    now: str
    verdict: str
    tests: tuple[str, ...]


def main() -> int:
    """Sample, try, and print what was not seen."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--measure", action="store_true", help="find out again which tests run which lines")
    wanted = parser.parse_args()
    if wanted.measure or not (FOLDER / "seconds.json").is_file():
        covering.measure(ROOT, FOLDER, PACKAGES)
    known = covering.read(ROOT, FOLDER)
    sample = _sample(wanted.count, wanted.seed, wanted.only)
    trees: Queue[Server] = Queue()
    servers = [Server(index) for index in range(wanted.jobs)]
    for each in servers:
        trees.put(each)

    def attempt(mutant: Mutant) -> Verdict:
        tests = known.of(mutant.path, mutant.line)
        server = trees.get()
        try:
            verdict = server.attempt(mutant, tests) if tests else "unrun"
        finally:
            trees.put(server)
        change = f"{_short(mutant.was)}  ->  {_short(mutant.now)}"
        print(f"{verdict:7} {mutant.path}:{mutant.line}  {change}", flush=True)
        return Verdict(mutant.path, mutant.line, mutant.was, mutant.now, verdict, tuple(tests))

    try:
        with ThreadPoolExecutor(wanted.jobs) as pool:
            verdicts = list(pool.map(attempt, sample))
    finally:
        for each in servers:
            each.close()
    (FOLDER / "verdicts.json").write_text(json.dumps([asdict(each) for each in verdicts], indent=1))
    caught = sum(each.verdict in {"seen", "hung"} for each in verdicts)
    print(f"{caught} of {len(verdicts)} seen: {caught / max(1, len(verdicts)):.0%}")
    return 0


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def _sample(count: int, seed: int, only: str) -> list[Mutant]:
    """Choose faults over all files, each as likely as any other."""
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    every = [each for file in files if only in str(file) for each in mutants_of(file, ROOT)]
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311  # nothing is secret


class Server:
    """A copy of the tree, and a process with TensorFlow loaded, from which each try is forked."""

    def __init__(self, index: int) -> None:
        self.tree = FOLDER / f"tree-{index}"
        shutil.rmtree(self.tree, ignore_errors=True)
        listing = ["git", "ls-files", "-z"]
        files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
        for name in filter(None, files.stdout.split("\0")):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.tree / name)
        (self.tree / ".venv").symlink_to(ROOT / ".venv")
        environment = {**os.environ, "PYTHONPATH": str(self.tree), "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking.py"))],
            cwd=self.tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def attempt(self, mutant: Mutant, tests: Sequence[str]) -> str:
        """Put the fault into the tree, run the tests, take it out again."""
        path = self.tree / mutant.path
        path.write_text(mutant.text, encoding="utf-8")
        try:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            wanted = json.dumps({"tests": list(tests), "patience": PATIENCE})
            print(wanted, file=self.process.stdin, flush=True)
            return self.process.stdout.readline().strip()
        finally:
            shutil.copy2(ROOT / mutant.path, path)

    def close(self) -> None:
        """End the process and remove the tree."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.tree, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
