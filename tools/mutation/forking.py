"""A process that has loaded what is slow to load, and forks itself for every run of some tests.

It reads requests from standard input, one line of JSON each, and answers each with one word: `missed`, `seen`
or `hung`. There are two processes from which runs are forked:

- The first has TensorFlow, Keras and other libraries loaded, and nothing of this project. A child of it reads
  all source as it is then. It is needed for faults that change what a module is made of when it is imported.
- The second is forked from the first, and has collected the tests, and so imported them and all that they
  test. A child of it gets the fault by exchanging the code of the functions of one file, which takes no time.
  Processes that tests start read the file, in which the fault stands too.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

LIBRARIES = ("keras", "tensorflow", "numpy", "attrs", "cattrs", "click", "rich", "lark", "pytest")
IDLE = 120.0  # seconds in which processes that do nothing are waited for
CHECKED = 5.0  # seconds between two checks of whether they do something
LOOK = 0.1  # seconds between two looks at a process
OPTIONS = ("-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist")


def main() -> None:
    """Load the libraries, then serve."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print
    for each in LIBRARIES:
        __import__(each)
    import pytest

    collected: Collected | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("collect") is not None:
            collected = Collected(request["collect"])
            answer = "collected"
        elif request.get("fresh"):
            with changed(request["changed"]):
                child = os.fork()
                if child == 0:
                    _prepare(request)
                    os._exit(int(pytest.main(["-x", *OPTIONS, *request["tests"]])))
                answer = wait(child)
        else:
            assert collected is not None
            answer = collected.ask(line)
        print(answer, file=answers, flush=True)


class Collected:
    """The process that has collected tests, as the process sees it that has forked it."""

    def __init__(self, tests: list[str]) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        if os.fork() == 0:
            import pytest

            os.close(self._requests)
            os.close(self._answers)
            plugin = Serving(requests, answers)
            os._exit(int(pytest.main([*OPTIONS, *tests], plugins=[plugin])))
        os.close(requests)
        os.close(answers)
        self._reading = os.fdopen(self._answers)
        self._writing = os.fdopen(self._requests, "w")

    def ask(self, line: str) -> str:
        """Return the answer to a request."""
        self._writing.write(line)
        self._writing.flush()
        return self._reading.readline().strip()


class Serving:
    """A plugin of pytest that forks the process for every request, after the tests have been collected.

    A child goes on as pytest does, with the tests of its request in place of all tests.
    """

    def __init__(self, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._measured: Measured | None = None

    def pytest_runtestloop(self, session: Any) -> bool | None:
        """Serve; return None in a child, so that pytest runs the tests that are left."""
        items = {item.nodeid: item for item in session.items}
        of_file: dict[str, list[Any]] = defaultdict(list)
        for name, item in items.items():
            of_file[name.split("::", 1)[0]].append(item)
        functions = functions_of(str(Path.cwd()))
        with os.fdopen(self._requests) as requests:
            for line in requests:
                request = json.loads(line)
                with changed(request["changed"]) as former:
                    child = os.fork()
                    if child == 0:
                        _prepare(request)
                        for path, text in request["changed"].items():
                            exchange(functions.get(path, []), path, former[path], text)
                        wanted = request["tests"]
                        if request.get("seconds"):
                            self._measured = Measured(session, request["seconds"], request["at_most"])
                            of_files = [item for each in wanted for item in of_file[each]]
                            session.items[:] = [each for each in of_files if is_full(each) is request["full"]]
                        else:
                            session.config.option.maxfail = 1
                            session.items[:] = [items[each] for each in wanted]
                        break
                    answer = wait(child)
                os.write(self._answers, f"{answer}\n".encode())
            else:
                return True
        return None

    def pytest_collectreport(self, report: Any) -> None:
        """Raise if TensorFlow has started threads, without which a child cannot go on."""
        threads = (Path(f"/proc/self/task/{each}/comm").read_text() for each in os.listdir("/proc/self/task"))  # noqa: PTH208 names alone
        if any(each.startswith("tf_") for each in threads):
            raise RuntimeError(f"TensorFlow computes something when {report.nodeid} is imported")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note the result of a test that is measured."""
        if self._measured is not None:
            self._measured.note(report)


def is_full(item: Any) -> bool:
    """Tell whether a test is marked `full`, so that `make test` leaves it out and `make full` runs it."""
    return item.get_closest_marker("full") is not None


class Measured:
    """The processor time of tests, of those that pass, written down as the tests end."""

    def __init__(self, session: Any, file: str, at_most: float) -> None:
        self._session = session
        self._file = file
        self._ends = _spent() + at_most
        self._before = _spent()
        self._failed = False

    def note(self, report: Any) -> None:
        """Note one phase of a test, and end the run if it has taken too long."""
        self._failed |= report.outcome != "passed"
        if report.when == "teardown":
            now = _spent()
            if not self._failed:
                with open(self._file, "a") as file:  # noqa: PTH123  # a test can change what `Path` does
                    file.write(json.dumps([report.nodeid, round(now - self._before, 3)]) + "\n")
            self._before, self._failed = now, False
            if now > self._ends:
                self._session.shouldstop = "enough"


def _spent() -> float:
    """Return the processor time of this process and of what it has waited for, in seconds."""
    return sum(os.times()[:4])


def _prepare(request: dict[str, Any]) -> None:
    """Make a child a process of its own, which leaves no byte code and has a limit of processor time."""
    os.setsid()
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    limit = int(request["limit"] + _spent())
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))


@contextmanager
def changed(texts: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Give files other texts for a while.

    Args:
        texts: The other texts by the paths of the files.

    Yields:
        The former texts by the paths of the files.
    """
    owner, files = os.getpid(), [Path(each).resolve() for each in texts]
    former = [each.read_text(encoding="utf-8") for each in files]
    times = [each.stat() for each in files]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text, encoding="utf-8")
    try:
        yield dict(zip(texts, former, strict=True))
    finally:
        if os.getpid() == owner:
            for file, text, time_of in zip(files, former, times, strict=True):
                file.write_text(text, encoding="utf-8")
                os.utime(file, ns=(time_of.st_atime_ns, time_of.st_mtime_ns))


def functions_of(folder: str) -> dict[str, list[FunctionType]]:
    """Return all functions that there are, by the path of their file relative to a folder."""
    found: dict[str, list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(folder):
            found[os.path.relpath(each.__code__.co_filename, folder)].append(each)
    return found


def exchange(functions: list[FunctionType], path: str, old: str, new: str) -> None:
    """Give functions the code that they have in another text of their file.

    Args:
        functions: All functions of the file.
        path: The path of the file, relative to the folder of this process.
        old: The text that the functions have been made of.
        new: The other text, which has the same functions.
    """
    name = os.path.join(os.getcwd(), path)  # noqa: PTH118, PTH109  # a test can change what `Path` does
    before, after = (_codes(compile(text, name, "exec", dont_inherit=True)) for text in (old, new))
    by_place = {(code.co_qualname, code.co_firstlineno): key for key, code in before.items()}
    for each in functions:
        code = each.__code__
        key = by_place.get((code.co_qualname, code.co_firstlineno))
        if key in after and after[key].co_freevars == code.co_freevars:
            each.__code__ = after[key]


def _codes(module: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return the code of all functions of a module, by name and by which of this name it is."""
    met: Counter[str] = Counter()
    found: dict[tuple[str, int], CodeType] = {}
    left = [module]
    while left:
        code = left.pop(0)
        for each in code.co_consts:
            if isinstance(each, CodeType):
                found[each.co_qualname, met[each.co_qualname]] = each
                met[each.co_qualname] += 1
                left.append(each)
    return found


def wait(child: int) -> str:
    """Wait for a child, and tell what it has come to; one that does nothing for too long is ended."""
    spent, since, checked = -1, time.monotonic(), time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            _end_group(child)
            return "hung" if code == -signal.SIGXCPU else "missed" if code == 0 else "seen"
        if time.monotonic() - checked > CHECKED:
            checked = time.monotonic()
            running, now = _state(child)
            if now != spent or running:
                spent, since = now, checked
            elif checked - since > IDLE:
                _end_group(child)
                os.waitpid(child, 0)
                return "hung"
        time.sleep(LOOK)


def _end_group(child: int) -> None:
    """End what a child has started and left behind, and the child itself."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        return


def _state(process: int) -> tuple[bool, int]:
    """Look at a process and all that it has started.

    Returns:
        Whether any thread of them is running or would like to run, and the ticks of processor time that they
        have spent. On a busy machine a thread can want to run for minutes.
    """
    rows: dict[int, tuple[int, int]] = {}
    for each in Path("/proc").glob("[0-9]*"):
        if fields := _fields(each):
            rows[int(each.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    family = {process}
    while more := {each for each, (parent, _) in rows.items() if parent in family} - family:
        family |= more
    threads = (
        fields
        for each in family
        for task in Path(f"/proc/{each}/task").glob("*")
        if (fields := _fields(task))
    )
    return any(fields[0] in {"R", "D"} for fields in threads), sum(
        rows[each][1] for each in family & rows.keys()
    )


def _fields(folder: Path) -> list[str]:
    """Return the fields of `stat` after the name of a process or a thread; none if it has ended."""
    try:
        return (folder / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


if __name__ == "__main__":
    main()
