"""Put a sample of small faults into the code, one at a time, and count how many the tests see.

`make mutants ARGS="--count 200 --seed 1"`. Each fault is tried against the fastest tests that run its line,
in a copy of the tree. A fault in a line that no test runs counts as not seen. A fault takes about ten
seconds. First, a run of all tests finds out which of them run these lines; it is repeated for another
sample, or with `--measure`.

A sample can be tried in parts: `--part 3/10` tries the third of ten, each of which has faults of all files.
The result of a fault is written down at once, and a fault is not tried again until its file changes. So a
run that was interrupted continues; `--again` forgets all results. `--measure tests/compiler/graph` finds out
anew which lines are run by some of the tests.

mutmut and cosmic-ray start a new process for each fault, which imports TensorFlow, or keep all faults in
the process that runs the tests. Here each try is forked from a process that has TensorFlow loaded already,
and the commands that tests start as processes have the fault too, because it stands in a file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import TYPE_CHECKING

from attrs import asdict, frozen

from tools.mutation import covering
from tools.mutation.mutants import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutation"
VERDICTS = FOLDER / "verdicts.jsonl"
PACKAGES = ("compiler", "tfdeploy")
WIDTH = 60  # characters of a fault that are printed
PATIENCE = 300.0  # seconds; a fault that makes tests hang is seen


@frozen
class Verdict:
    """What became of a fault: `seen`, `hung`, `missed`, or `unrun` if no test runs its line.

    `digest` tells the fault and the rest of its file apart from every other.
    """

    digest: str
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
    parser.add_argument("--part", type=_part, default=(1, 1), help="the part of the sample to try: 3/10")
    parser.add_argument("--again", action="store_true", help="try also what has been tried before")
    parser.add_argument(
        "--measure",
        nargs="*",
        metavar="TESTS",
        help="find out again which of these tests run the lines, or of all",
    )
    wanted = parser.parse_args()
    sample = _sample(wanted.count, wanted.seed, wanted.only)
    if wanted.measure is not None or not covering.is_known(FOLDER, sample):
        covering.measure(_copy(FOLDER / "marked"), FOLDER, sample, wanted.measure or [])
    if wanted.again:
        VERDICTS.unlink(missing_ok=True)
    tried = _tried()
    own = [each for each in _of_part(sample, *wanted.part) if _digest(each) not in tried]
    for verdict in _attempts(own, min(wanted.jobs, len(own))):
        tried[verdict.digest] = verdict
    found = [tried[_digest(each)] for each in sample if _digest(each) in tried]
    caught = sum(each.verdict in {"seen", "hung"} for each in found)
    print(f"{caught} of {len(found)} seen: {caught / max(1, len(found)):.0%}")
    if len(found) < len(sample):
        print(f"{len(sample) - len(found)} of the sample of {len(sample)} have not been tried yet")
    return 0


def _attempts(mutants: Sequence[Mutant], jobs: int) -> list[Verdict]:
    """Try faults side by side; print each verdict and write it down as soon as it is there."""
    known = covering.read(FOLDER)
    trees: Queue[Server] = Queue()
    servers = [Server(index) for index in range(jobs)]
    for each in servers:
        trees.put(each)
    writing = Lock()

    def attempt(mutant: Mutant) -> Verdict:
        tests = known.of(mutant.path, mutant.line)
        server = trees.get()
        try:
            word = server.attempt(mutant, tests) if tests else "unrun"
        finally:
            trees.put(server)
        verdict = Verdict(
            _digest(mutant), mutant.path, mutant.line, mutant.was, mutant.now, word, tuple(tests)
        )
        with writing, VERDICTS.open("a") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")
        print(
            f"{word:7} {mutant.path}:{mutant.line}  {_short(mutant.was)}  ->  {_short(mutant.now)}",
            flush=True,
        )
        return verdict

    try:
        with ThreadPoolExecutor(max(1, jobs)) as pool:
            return list(pool.map(attempt, mutants))
    finally:
        for each in servers:
            each.close()


def _part(text: str) -> tuple[int, int]:
    """Return the number of a part and how many parts there are, from `3/10`."""
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: write 3/10 for the third of ten")
    return int(number), int(parts)


def _of_part(sample: Sequence[Mutant], number: int, parts: int) -> Sequence[Mutant]:
    """Return the faults of a part: every so many-th of the sample."""
    return sample[number - 1 :: parts]


def _digest(mutant: Mutant) -> str:
    """Return what tells a fault, in a file of which all else is as it is, apart from every other."""
    return hashlib.sha256(f"{mutant.path}\n{mutant.text}".encode()).hexdigest()


def _tried() -> dict[str, Verdict]:
    """Return what became of the faults that have been tried, by their digests."""
    lines = VERDICTS.read_text().splitlines() if VERDICTS.exists() else []
    verdicts = [Verdict(**json.loads(line)) for line in lines]
    return {each.digest: each for each in verdicts}


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..."


def _sample(count: int, seed: int, only: str) -> list[Mutant]:
    """Choose faults over all files, each as likely as any other."""
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    every = [each for file in files if only in str(file) for each in mutants_of(file, ROOT)]
    random.Random(seed).shuffle(every)  # noqa: S311  # nothing is secret
    made = (make() for make in every)
    return list(islice((each for each in made if each is not None), count))


def _copy(tree: Path) -> Path:
    """Copy the files of the project that git knows, as they are now, in place of what is there."""
    shutil.rmtree(tree, ignore_errors=True)
    listing = ["git", "ls-files", "-z"]
    files = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, files.stdout.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    (tree / ".venv").symlink_to(ROOT / ".venv")
    return tree


class Server:
    """A copy of the tree, and a process with TensorFlow loaded, from which each try is forked."""

    def __init__(self, index: int) -> None:
        self.tree = _copy(FOLDER / f"tree-{index}")
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
