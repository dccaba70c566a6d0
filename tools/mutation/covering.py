"""Finds out which tests run which statements, and how much processor time each test takes.

The statements of a sample of faults are marked, and files of tests are run with these marks. A mark writes
down its number and the test that is running. That costs next to nothing, while tracing every line is slow,
and it sees the processes that tests start, which inherit the name of the test from the environment.

Most tests have nothing to do with a given fault. So files of tests are measured only as they are needed: for
each fault first the file that has its name, then those that import what has the fault, then those of the same
folder.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path, PurePosixPath

from attrs import define, field

from tools.mutation.mutants import Mutant

MOST_TESTS = 60
MOST_SECONDS = 10.0  # of processor time, for the tests of one fault
FARTHEST = 8  # from a fault: the files of tests that share neither name nor folder with its file
MOST_FILES = 6  # of tests that are nearest to a fault
MOST_FILES_UNRUN = 15  # as long as none of their tests runs its line
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


@define
class Covering:
    """What runs of tests with marks have shown of the tests of `make test`, or of those marked `full`.

    Attributes:
        folder: The folder in which it is kept. `marks.txt` has the marks, `seconds.jsonl` the time of every
            test that passed, `measured.txt` the files of tests that have been run, and `sample.json` what the
            numbers mean. For tests marked `full` the two in the middle have `full-` before their names.
        places: The path and line of each fault of the sample.
        full: Whether it is about the tests marked `full`.
    """

    folder: Path
    places: Sequence[tuple[str, int]]
    full: bool
    _tests: dict[tuple[str, int], list[str]] = field(init=False, factory=lambda: defaultdict(list))
    _seconds: dict[str, float] = field(init=False, factory=dict)
    measured: set[str] = field(init=False, factory=set)

    @classmethod
    def of_sample(cls, folder: Path, sample: Sequence[Mutant]) -> tuple[Covering, Covering]:
        """Return what is known of a sample; what is known of another sample is removed.

        Args:
            folder: The folder in which it is kept.
            sample: The sample.

        Returns:
            What is known of the tests of `make test`, and of those marked `full`.
        """
        places = [(each.path, each.line) for each in sample]
        file = folder / "sample.json"
        folder.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or json.loads(file.read_text()) != [list(each) for each in places]:
            for name in ("seconds.jsonl", "measured.txt"):
                (folder / name).unlink(missing_ok=True)
                (folder / f"full-{name}").unlink(missing_ok=True)
            (folder / "marks.txt").unlink(missing_ok=True)
            file.write_text(json.dumps(places))
        of_test, of_full = (cls(folder, places, full) for full in (False, True))
        of_test.read()
        of_full.read()
        return of_test, of_full

    @property
    def marks(self) -> Path:
        """The file into which marks are written."""
        return self.folder / "marks.txt"

    @property
    def seconds(self) -> Path:
        """The file into which the time of tests is written."""
        return self._file("seconds.jsonl")

    def _file(self, name: str) -> Path:
        return self.folder / (f"full-{name}" if self.full else name)

    def read(self) -> None:
        """Read what has been written down so far."""
        self._tests.clear()
        for row in dict.fromkeys(_lines(self.marks)):
            number, test = row.split(" ", 1)
            self._tests[self.places[int(number)]].append(test)
        self._seconds = dict(json.loads(row) for row in _lines(self.seconds))
        self.measured = set(_lines(self._file("measured.txt")))

    def add(self, file: str) -> None:
        """Note that a file of tests has been run with marks, and read what that has shown."""
        with self._file("measured.txt").open("a") as measured:
            measured.write(f"{file}\n")
        self.read()

    def forget(self, files: Sequence[str]) -> None:
        """Let some files of tests be measured again."""
        self.measured -= set(files)
        self._file("measured.txt").write_text("".join(f"{each}\n" for each in sorted(self.measured)))

    def marked_files(self, root: Path) -> dict[str, str]:
        """Return the marked texts of all files of the sample, by their paths relative to `root`."""
        numbers: dict[str, dict[int, int]] = defaultdict(dict)
        for number, (path, line) in enumerate(self.places):
            numbers[path].setdefault(line, number)
        return {
            path: marked((root / path).read_text(encoding="utf-8"), lines, str(self.marks))
            for path, lines in numbers.items()
        }

    def of(self, place: tuple[str, int], near: Collection[str] = ()) -> list[str]:
        """Return the tests to run against a fault in this line.

        The fastest of each file of tests are chosen, in turn, until they take long enough: first those of the
        files that are near, then those of others. Those of a file follow each other, since they share what
        is made once for the file.

        Args:
            place: The path and line of the fault.
            near: The files of tests that are chosen from first.
        """
        files: dict[str, list[str]] = defaultdict(list)
        passed = [test for test in self._tests[place] if test in self._seconds]
        for test in sorted(passed, key=self._seconds.__getitem__):
            files[test.split("::", 1)[0]].append(test)
        order = sorted(files, key=lambda each: (each not in near, self._seconds[files[each][0]]))
        named, others = (
            {each: files[each] for each in order if (each in near) is own} for own in (True, False)
        )
        chosen: dict[str, list[str]] = {each: [] for each in order}
        spent = 0.0
        for file, test in islice(chain(_in_turn(named), _in_turn(others)), MOST_TESTS):
            if not spent or spent + self._seconds[test] <= MOST_SECONDS:
                chosen[file].append(test)
                spent += self._seconds[test]
        return [test for tests in chosen.values() for test in tests]

    def time_of(self, tests: Sequence[str]) -> float:
        """Return the seconds of processor time that some tests take together."""
        return sum(self._seconds[each] for each in tests)


def _in_turn(tests: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Give the first of each file, then the second of each, and so on."""
    for row in zip_longest(*tests.values()):
        yield from ((file, test) for file, test in zip(tests, row, strict=True) if test is not None)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.is_file() else []


@define
class Nearness:
    """Which files of tests have most to do with a file of the source.

    Attributes:
        root: The folder of the project.
        imports: The names that each file of tests imports, and the modules that it imports them from.
        words: The words of each file of tests.
        processes: The files whose tests start processes with TensorFlow, which takes seconds.
        graphs: The files whose tests make graphs of TensorFlow, which takes a part of a second.
    """

    root: Path
    imports: dict[str, set[str]] = field(init=False, factory=dict)
    words: dict[str, set[str]] = field(init=False, factory=dict)
    processes: set[str] = field(init=False, factory=set)
    graphs: set[str] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        """Read what the files of tests import."""
        for file in sorted((self.root / "tests").rglob("test_*.py")):
            path = str(file.relative_to(self.root))
            text = file.read_text(encoding="utf-8")
            self.imports[path] = set(_imported(ast.parse(text)))
            self.words[path] = set(re.findall(r"\w+", text))
            if "forked" in text:
                self.processes.add(path)
            if "compiler.graph" in text or "tensorflow" in text:
                self.graphs.add(path)

    def slowness(self, path: str) -> int:
        """Return how slow the tests of a file are likely to be: 0, 1 with graphs, or 2 with processes."""
        return 2 if path in self.processes else int(path in self.graphs)

    def named(self, source: str) -> set[str]:
        """Return the files of tests that have the name of a file of the source, or import it."""
        module, stem = _module_of(source)
        return {
            path
            for path, names in self.imports.items()
            if module in names or PurePosixPath(path).stem == f"test_{stem}"
        }

    def candidates(self, source: str, name: str = "") -> list[str]:
        """Return the files of tests, the nearest to a file of the source first.

        Args:
            source: The file.
            name: The function or variable that the fault is in. Tests with its name are near if they are few.
        """
        speaking = {path for path, words in self.words.items() if name in words}
        speaking = speaking if len(speaking) <= MOST_FILES else set()
        own = PurePosixPath(source)
        module, stem = _module_of(source)
        parts = own.parts[1:] if own.parts[0] == "tfdeploy" else own.parts
        folder = PurePosixPath("tests", *parts[:-1])

        words = {*stem.split("_"), *own.parent.name.split("_")}

        def distance(path: str) -> tuple[int, int, bool, str]:
            test = PurePosixPath(path)
            shared = sum(1 for _ in _while_equal(test.parts[:-1], folder.parts))
            if test == folder / f"test_{stem}.py":
                kind = 0
            elif module in self.imports[path]:
                kind = 1
            elif path in speaking or words & set(test.stem.split("_")[1:]):
                kind = 2
            elif test.parent == folder:
                kind = 3
            else:
                kind = FARTHEST
            return (
                kind + FARTHEST // 2 * (kind > 0 and path in self.processes),
                -shared,
                stem not in self.words[path],
                path,
            )

        return sorted(self.imports, key=distance)


def _module_of(source: str) -> tuple[str, str]:
    """Return the name of the module in a file, or of the package that the file is of, and its last part."""
    path = PurePosixPath(source)
    own = path.parent if path.stem == "__init__" else path.with_suffix("")
    return ".".join(own.parts), own.name


def _while_equal(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return
        yield a


def _imported(tree: ast.Module) -> Iterator[str]:
    """Give the names of the modules that a module imports, and of what it imports from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def name_at(source: str, line: int) -> str:
    """Return the name of the innermost function around a line, else of what the line makes; or nothing."""
    nodes = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.stmt)]
    around = [each for each in nodes if each.lineno <= line <= (each.end_lineno or 0)]
    for each in reversed(around):
        match each:
            case ast.FunctionDef(name=name):
                return name
            case _:
                pass
    for each in reversed(around):
        match each:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                return name
            case _:
                pass
    return ""


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
