"""Put a sample of small faults into the code, one at a time, and count how many the tests see.

`make mutants ARGS="--count 200 --seed 1"`. Each fault is tried against the fastest tests that run its line,
in a copy of the tree, until one of them fails: first those of `make test`, and if none of these fails, those
marked `full`, which `make full` runs. A fault in a line that no test runs counts as not seen. Which
tests run the lines of the sample is found out while faults are tried: for each fault, the files of tests that
are nearest to it are run once, in a process that writes down who runs which line. Their tests marked `full`
are run for this only if no other test sees the fault.

A sample can be tried in parts: `--part 3/10` tries the third of ten, each of which has faults of all files.
The result of a fault is written down at once, and a fault is not tried again until its file changes. So a
run that was interrupted continues; `--again` forgets all results. With `--minutes 3`, no fault is begun after
three minutes, and the next run goes on from there. `--measure tests/compiler/graph` also runs these tests to
find out which lines they run, and `--missed` tries again what was missed.

mutmut and cosmic-ray start a new process for each fault, which imports TensorFlow, or keep all faults in
the process that runs the tests. Here each try is forked from a process that has imported TensorFlow, this
project and its tests, and the functions of one file get their code anew. Commands that tests start as
processes have the fault too, because it stands in a file. A fault outside of all functions is tried in a
process that imports the project anew, and so is every fault with `--missed`, since a table that was made
during an import is not made again.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from queue import Queue
from threading import Lock
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from tests.forked import SETTINGS
from tools.mutation.covering import MOST_FILES, MOST_FILES_UNRUN, MOST_TESTS, Covering, Nearness, name_at
from tools.mutation.mutants import Mutant, mutants_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutation"
VERDICTS = FOLDER / "verdicts.jsonl"
PACKAGES = ("compiler", "tfdeploy")
WIDTH = 60  # characters of a fault that are printed
# Seconds of processor time. A fault that makes tests take much longer than they take is seen.
LEAST, TIMES = 30.0, 5.0
IMPORTING = 30.0
OF_A_FILE = 8.0  # for which the tests of a file are run to see which lines they run
OF_A_FILE_IN_FULL = 10.0  # the same for tests marked `full`, many of which take seconds


@frozen
class Verdict:
    """What became of a fault.

    Attributes:
        digest: A digest of the fault and of the rest of its file.
        path: The file.
        line: The line.
        was: The code before the fault.
        now: The code with the fault.
        verdict: `seen` or `hung` if tests of `make test` fail or take far too long; `seen in full` if only
            tests marked `full` do so; `missed`, or `unrun` if no test runs its line.
        tests: The tests that it was tried against.
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
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no fault after so long")
    parser.add_argument("--again", action="store_true", help="try also what has been tried before")
    parser.add_argument("--missed", action="store_true", help="try again what was missed, all imported anew")
    parser.add_argument(
        "--measure", nargs="*", default=[], metavar="TESTS", help="find out which lines these tests run"
    )
    wanted = parser.parse_args()
    sample = _sample(wanted.count, wanted.seed, wanted.only)
    if wanted.again:
        VERDICTS.unlink(missing_ok=True)
    tried = _tried()
    left = {digest for digest, each in tried.items() if not (wanted.missed and each.verdict == "missed")}
    own = [each for each in _of_part(sample, *wanted.part) if _digest(each) not in left]
    ends = time.monotonic() + 60.0 * wanted.minutes
    for verdict in _attempts(sample, own, wanted.measure, wanted.jobs, ends, fresh=wanted.missed):
        tried[verdict.digest] = verdict
    found = [tried[_digest(each)] for each in sample if _digest(each) in tried]
    by_test = sum(each.verdict in {"seen", "hung"} for each in found)
    by_either = by_test + sum(each.verdict == "seen in full" for each in found)
    for caught, target in ((by_test, "make test"), (by_either, "make test or make full")):
        print(f"{caught} of {len(found)} seen by {target}: {caught / max(1, len(found)):.0%}")
    if len(found) < len(sample):
        print(f"{len(sample) - len(found)} of the sample of {len(sample)} have not been tried yet")
    return 0


def _attempts(
    sample: Sequence[Mutant],
    own: Sequence[Mutant],
    measure: Sequence[str],
    jobs: int,
    ends: float,
    *,
    fresh: bool,
) -> list[Verdict]:
    """Return what became of the faults in `own`, which are part of a sample, as far as the time sufficed."""
    return Attempts(sample, own, measure, ends, fresh=fresh).make(min(jobs, len(own))) if own else []


class Attempts:
    """Tries faults, and finds out which tests to try them with.

    Args:
        sample: The whole sample, which the marks are of.
        own: The faults to try.
        measure: What the paths of tests begin with that are run in any case, to find out what they run.
        ends: When no more faults are begun, by the monotonic clock.
        fresh: Whether the project is imported anew for every fault.
    """

    def __init__(
        self,
        sample: Sequence[Mutant],
        own: Sequence[Mutant],
        measure: Sequence[str],
        ends: float = math.inf,
        *,
        fresh: bool,
    ) -> None:
        self._own = own
        self._ends = ends
        self._fresh = fresh
        self._coverings = Covering.of_sample(FOLDER, sample)
        self._nearness = Nearness(ROOT)
        self._nearest: dict[Mutant, list[str]] = {}
        every = list(self._nearness.imports)
        wanted = [each for each in every if any(each.startswith(start) for start in measure)]
        self._wanted = sorted(wanted, key=self._nearness.slowness)
        for each in self._coverings:
            each.forget(self._wanted)
        self._trees: Queue[Server] = Queue()
        self._measuring = Lock()
        self._writing = Lock()

    def make(self, jobs: int) -> list[Verdict]:
        """Try the faults side by side; print each verdict and write it down as soon as it is there."""
        near = (self._near(each) for each in self._own)
        measured = chain.from_iterable(each.measured for each in self._coverings)
        collected = {*chain.from_iterable(near), *self._wanted, *measured}
        marked = self._coverings[0].marked_files(ROOT)
        servers = [Server(index, marked, sorted(collected)) for index in range(jobs)]
        for each in servers:
            self._trees.put(each)
        try:
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(self._measure_wanted, self._wanted))
                made = pool.map(self._attempt, sorted(self._own, key=self._effort))
                return [each for each in made if each is not None]
        finally:
            for each in servers:
                each.close()

    def _attempt(self, mutant: Mutant) -> Verdict | None:
        server = self._trees.get()
        try:
            if time.monotonic() >= self._ends:
                return None
            word, tests = self._try_with_more(server, mutant)
        finally:
            self._trees.put(server)
        verdict = Verdict(_digest(mutant), mutant.path, mutant.line, mutant.was, mutant.now, word, tests)
        with self._writing, VERDICTS.open("a") as written:
            written.write(json.dumps(asdict(verdict)) + "\n")
        print(
            f"{word:12} {mutant.path}:{mutant.line}  {_short(mutant.was)}  ->  {_short(mutant.now)}",
            flush=True,
        )
        return verdict

    def _try_with_more(self, server: Server, mutant: Mutant) -> tuple[str, tuple[str, ...]]:
        """Return what became of a fault, and the tests that it was tried with.

        These are the tests of `make test`, then those marked `full`.
        """
        every: list[str] = []
        for covering in self._coverings:
            word, tried = self._try_with(covering, server, mutant)
            if word != "missed":
                return ("seen in full" if covering.full else word), tried
            every += tried
        return ("missed" if every else "unrun"), tuple(every)

    def _try_with(self, covering: Covering, server: Server, mutant: Mutant) -> tuple[str, tuple[str, ...]]:
        """Return what became of a fault with tests of one kind, and these tests.

        These are the tests that are known to run its line, then those of files further and further away, and
        of still more files if no test runs it.
        """
        tried: list[str] = []
        for number, file in enumerate((None, *self._near(mutant))):
            if number > MOST_FILES and tried:
                break
            if file is not None:
                with self._measuring:
                    if file in covering.measured:
                        continue
                    self._measure(covering, server, file)
            known = self._known(covering, mutant)
            tests = [each for each in known if each not in tried][: MOST_TESTS - len(tried)]
            if tests:
                limit = LEAST + TIMES * covering.time_of(tests)
                word = server.attempt(mutant, tests, limit, fresh=self._fresh)
                if word != "missed":
                    return word, tuple(tests)
                tried += tests
        return "missed", tuple(tried)

    def _effort(self, mutant: Mutant) -> tuple[bool, float]:
        """Return what says how soon a fault is tried: first those with the fastest tests.

        A fault of which no test of `make test` is known comes after all others, by how many of the nearest
        make graphs.
        """
        covering = self._coverings[0]
        tests = self._known(covering, mutant)
        if tests:
            return False, covering.time_of(tests)
        return True, len(self._nearness.graphs.intersection(self._near(mutant)))

    def _known(self, covering: Covering, mutant: Mutant) -> list[str]:
        return covering.of((mutant.path, mutant.line), self._nearness.named(mutant.path))

    def _near(self, mutant: Mutant) -> list[str]:
        if mutant not in self._nearest:
            name = name_at((ROOT / mutant.path).read_text(encoding="utf-8"), mutant.line)
            self._nearest[mutant] = self._nearness.candidates(mutant.path, name)[:MOST_FILES_UNRUN]
        return self._nearest[mutant]

    def _measure_wanted(self, file: str) -> None:
        server = self._trees.get()
        try:
            for covering in self._coverings:
                server.measure(file, covering.seconds, full=covering.full)
        finally:
            self._trees.put(server)
        with self._measuring:
            for covering in self._coverings:
                covering.add(file)

    def _measure(self, covering: Covering, server: Server, file: str) -> None:
        server.measure(file, covering.seconds, full=covering.full)
        covering.add(file)


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
    """Choose faults over all files, each as likely as any other.

    Of files that do not change, the same faults are chosen again.
    """
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    every = {
        _rank(seed, file.relative_to(ROOT), number): make
        for file in files
        if only in str(file)
        for number, make in enumerate(mutants_of(file, ROOT))
    }
    made = (every[rank]() for rank in sorted(every))
    return list(islice((each for each in made if each is not None), count))


def _rank(seed: int, path: Path, number: int) -> bytes:
    """Return a number drawn for a fault, which does not change as other files do."""
    return hashlib.sha256(f"{seed} {path} {number}".encode()).digest()


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
    """A copy of the tree, and the process from which each try in it is forked.

    Args:
        index: The number of the copy.
        marked: The texts of the files with marks.
        tests: The files of tests that the process imports.
    """

    def __init__(self, index: int, marked: Mapping[str, str], tests: Sequence[str]) -> None:
        self.tree = _copy(FOLDER / f"tree-{index}")
        for path, text in marked.items():
            (self.tree / path).write_text(text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(self.tree), **SETTINGS}
        self._log = FOLDER / f"log-{index}.txt"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking.py"))],
            cwd=self.tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            text=True,
        )
        self._ask({"collect": list(tests)})

    def measure(self, file: str, seconds: Path, *, full: bool) -> None:
        """Run the tests of a file that are marked `full`, or the others, which write down what they run.

        Args:
            file: The file of tests.
            seconds: Where the time of every test that passes is written.
            full: Whether to run those marked `full`.
        """
        at_most = OF_A_FILE_IN_FULL if full else OF_A_FILE
        limits = {"limit": at_most * TIMES, "at_most": at_most}
        self._ask({"tests": [file], "changed": {}, "seconds": str(seconds), "full": full, **limits})

    def attempt(self, mutant: Mutant, tests: Sequence[str], limit: float, *, fresh: bool) -> str:
        """Put the fault into the tree, run the tests, and return what they have come to.

        Args:
            mutant: The fault.
            tests: The tests.
            limit: The processor time in seconds after which the tests are ended.
            fresh: Whether the project is imported anew.
        """
        fresh = fresh or not _is_in_function(mutant)
        limit += IMPORTING if fresh else 0.0
        changed = {mutant.path: mutant.text}
        return self._ask({"tests": list(tests), "changed": changed, "limit": limit, "fresh": fresh})

    def _ask(self, request: dict[str, Any]) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        if answer := self.process.stdout.readline().strip():
            return answer
        raise SystemExit(f"the process that runs the tests has ended: {self._log}")

    def close(self) -> None:
        """End the process and remove the tree."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.tree, ignore_errors=True)


def _is_in_function(mutant: Mutant) -> bool:
    """Tell whether a fault is in the body of a function, which is not run when its module is imported."""
    tree = ast.parse((ROOT / mutant.path).read_text(encoding="utf-8"))
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(each.body[0].lineno <= mutant.line <= (each.end_lineno or 0) for each in functions)


if __name__ == "__main__":
    sys.exit(main())
