"""Finds out which tests run which statements, and how long each test takes.

The statements of a sample of faults are marked in a copy of the tree, and the tests are run in it once. A
mark writes down its number and the test that is running. That costs next to nothing, while tracing every line
is slow, and it sees the processes that tests start, which inherit the name of the test from the environment.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from attrs import frozen

from tools.mutation.mutants import Mutant

MOST_TESTS = 12
MOST_SECONDS = 90.0
MARK = """
def _mutation_mark(number, _seen=set()):
    import os
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" ", 1)[0]
    if test and (number, test) not in _seen:
        _seen.add((number, test))
        with open({file!r}, "a") as file:
            file.write(f"{{number}} {{test}}\\n")
"""
"""The function that a marked file begins with. It needs nothing of this project, wherever the file is run."""


@frozen
class Covering:
    """What a run of the tests in a marked tree has shown.

    Attributes:
        tests: The tests that run the statement of a fault, by the file and line of the fault.
        seconds: How long each test that passed took. No other test says anything of a fault.
    """

    tests: Mapping[tuple[str, int], Sequence[str]]
    seconds: Mapping[str, float]

    def of(self, path: str, line: int) -> list[str]:
        """Return the tests to run against a fault in this line: the fastest of each file of tests first."""
        files: dict[str, list[str]] = defaultdict(list)
        passed = [test for test in self.tests.get((path, line), ()) if test in self.seconds]
        for test in sorted(passed, key=self.seconds.__getitem__):
            files[test.split("::", 1)[0]].append(test)
        queues = sorted(files.values(), key=lambda each: self.seconds[each[0]])
        chosen: list[str] = []
        spent = 0.0
        while any(queues) and len(chosen) < MOST_TESTS:
            for queue in queues:
                if queue and len(chosen) < MOST_TESTS:
                    test = queue.pop(0)
                    spent += self.seconds[test]
                    if chosen and spent > MOST_SECONDS:
                        return chosen
                    chosen.append(test)
        return chosen


def is_known(folder: Path, sample: Sequence[Mutant]) -> bool:
    """Tell whether `folder` has the tests of this sample."""
    if not all((folder / name).is_file() for name in ("marks.txt", "seconds.json", "sample.json")):
        return False
    return bool(json.loads((folder / "sample.json").read_text()) == _places(sample))


def _places(sample: Sequence[Mutant]) -> list[list[str | int]]:
    return [[each.path, each.line] for each in sample]


def measure(tree: Path, folder: Path, sample: Sequence[Mutant], tests: Sequence[str] = ()) -> None:
    """Run tests once in a tree whose statements are marked, and leave what was seen in `folder`.

    Args:
        tree: A copy of the project, whose files are changed.
        folder: Where `marks.txt`, `sample.json` and `seconds.json` are written.
        sample: The faults whose statements are marked.
        tests: The tests to run, or none for all of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marks = folder / "marks.txt"
    marks.unlink(missing_ok=True)
    (folder / "seconds.json").unlink(missing_ok=True)
    (folder / "sample.json").write_text(json.dumps(_places(sample)))
    numbers: dict[str, dict[int, int]] = defaultdict(dict)  # of each line in each file
    for number, each in enumerate(sample):
        numbers[each.path].setdefault(each.line, number)
    for path, lines in numbers.items():
        source = (tree / path).read_text(encoding="utf-8")
        (tree / path).write_text(marked(source, lines, str(marks)), encoding="utf-8")
    marks.touch()
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadfile"),
        *("-p", "tools.mutation.covering", f"--seconds-file={folder / 'seconds.json'}", *tests),
    ]
    # A test that fails here, in a tree without its history or with marks in it, is left out by its name.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")])}
    if subprocess.run(command, cwd=tree, env=environment, check=False).returncode not in {0, 1}:
        raise SystemExit("the tests could not be run")


def read(folder: Path) -> Covering:
    """Read what `measure` left."""
    sample = [(path, line) for path, line in json.loads((folder / "sample.json").read_text())]
    tests: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in dict.fromkeys((folder / "marks.txt").read_text().splitlines()):
        number, test = row.split(" ", 1)
        tests[sample[int(number)]].append(test)
    return Covering(tests, json.loads((folder / "seconds.json").read_text()))


def marked(source: str, numbers: Mapping[int, int], file: str) -> str:
    """Return the source of a module in which some statements write down that they are run.

    A statement outside of every function is run when the module is imported, which no test does for itself.
    So the first statements of all functions of the file stand for it.

    Args:
        source: The source of the module.
        numbers: The number that the statement of each of these lines writes.
        file: The path of the file that the marks are written into.

    Returns:
        The changed source, which does what it did.
    """
    tree = ast.parse(source)
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    wanted: dict[int, set[int]] = defaultdict(set)  # numbers by the line before which they are written
    for line, number in numbers.items():
        holders = [each for each in functions if _first(each) <= line <= (each.end_lineno or 0)]
        inside = [each for each in holders if line >= each.body[0].lineno]
        for begin in [_statement(inside[-1], line)] if inside else [_entry(each) for each in functions]:
            wanted[begin].add(number)
    lines = source.splitlines(keepends=True)
    for begin, found in wanted.items():
        text = lines[begin - 1]
        indent = text[: len(text) - len(text.lstrip())]
        calls = "; ".join(f"_mutation_mark({number})" for number in sorted(found))
        lines[begin - 1] = f"{indent}{calls}\n{text}"
    beginning = next(each for each in tree.body if not _opens(each))
    place = _first(beginning) - 1
    return "".join([*lines[:place], MARK.format(file=file), *lines[place:]])


def _opens(statement: ast.stmt) -> bool:
    """Tell whether a statement has to stay at the beginning of its module."""
    future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return future or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def _first(node: ast.stmt) -> int:
    """Return the first line of a statement, with its decorators."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])


def _entry(function: ast.FunctionDef) -> int:
    """Return the line of the first statement of a function that does something."""
    return _first(next((each for each in function.body if not _opens(each)), function.body[-1]))


def _statement(function: ast.FunctionDef, line: int) -> int:
    """Return where the smallest statement of a function begins that holds a line and may follow another."""
    best = _entry(function)
    for body in _bodies(function):
        for each in body:
            if _first(each) <= line <= (each.end_lineno or 0) and not _opens(each):
                best = max(best, _first(each))
    return best


def _bodies(function: ast.FunctionDef) -> Iterator[Sequence[ast.stmt]]:
    """Give the lists of statements in a function, but for the one that an `elif` is."""
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            chained = name == "orelse" and isinstance(node, ast.If) and _is_elif(node)
            if isinstance(body, list) and not chained:
                yield body


def _is_elif(node: ast.If) -> bool:
    match node.orelse:
        case [ast.If() as following]:
            return following.col_offset == node.col_offset
        case _:
            return False


# --- the plugin of pytest by which the seconds are written ------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say where the seconds go."""
    parser.addoption("--seconds-file", help="write the seconds of every test that passes into this file")


_SECONDS: dict[str, float] = defaultdict(float)
_FAILED: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the phases of a test."""
    _SECONDS[report.nodeid] += report.duration
    if report.outcome != "passed":
        _FAILED.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the seconds, in the process that leads the others."""
    file = session.config.getoption("--seconds-file")
    if file and not hasattr(session.config, "workerinput"):
        passed = {test: seconds for test, seconds in _SECONDS.items() if test not in _FAILED}
        Path(file).write_text(json.dumps(passed))
