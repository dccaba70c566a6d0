"""Which tests run which lines, and how long each takes: a run of all tests under coverage."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen
from coverage import CoverageData

MOST_TESTS = 12
MOST_SECONDS = 90.0


@frozen
class Covering:
    """The tests of each line, by file and line, and the seconds of each test."""

    tests: Mapping[str, Mapping[int, tuple[str, ...]]]
    seconds: Mapping[str, float]

    def of(self, path: str, line: int) -> list[str]:
        """Return the tests to run against a fault in this line: the fastest of each file of tests first."""
        files: dict[str, list[str]] = defaultdict(list)
        for test in sorted(
            self.tests.get(path, {}).get(line, ()), key=lambda each: self.seconds.get(each, 1.0)
        ):
            files[test.split("::", 1)[0]].append(test)
        queues = sorted(files.values(), key=lambda each: self.seconds.get(each[0], 1.0))
        chosen: list[str] = []
        spent = 0.0
        while any(queues) and len(chosen) < MOST_TESTS:
            for queue in queues:
                if queue and len(chosen) < MOST_TESTS:
                    test = queue.pop(0)
                    spent += self.seconds.get(test, 1.0)
                    if chosen and spent > MOST_SECONDS:
                        return chosen
                    chosen.append(test)
        return chosen


def measure(root: Path, folder: Path, packages: tuple[str, ...], tests: Sequence[str] = ()) -> None:
    """Run tests once under coverage, all of them if none are named, and leave what was seen in `folder`.

    What is known there of other tests stays, if some are named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "coveragerc"
    settings.write_text(f"[run]\nsource = {','.join(packages)}\ndata_file = {folder / 'coverage'}\n")
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"),
        *("-p", "tools.mutation.covering", f"--seconds-file={folder / 'seconds.json'}"),
        *("--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="),
        *(["--cov-append", *tests] if tests else []),
    ]
    if not tests:
        (folder / "seconds.json").unlink(missing_ok=True)
    subprocess.run(command, cwd=root, check=True)


def read(root: Path, folder: Path) -> Covering:
    """Read what `measure` left."""
    data = CoverageData(str(folder / "coverage"))
    data.read()
    tests: dict[str, dict[int, tuple[str, ...]]] = {}
    for name in data.measured_files():
        lines = data.contexts_by_lineno(name)
        tests[str(Path(name).relative_to(root))] = {
            line: tuple(sorted({each.rsplit("|", 1)[0] for each in contexts if each}))
            for line, contexts in lines.items()
        }
    return Covering(tests, json.loads((folder / "seconds.json").read_text()))


# --- the plugin of pytest by which the seconds are written ------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say where the seconds go."""
    parser.addoption("--seconds-file", help="write the seconds of every test into this file")


_SECONDS: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the phases of a test."""
    _SECONDS[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the seconds, in the process that leads the others."""
    file = session.config.getoption("--seconds-file")
    if file and not hasattr(session.config, "workerinput"):
        path = Path(file)
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**before, **_SECONDS}))
