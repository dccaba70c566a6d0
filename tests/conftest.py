"""What all tests share: golden files, signals as a terminal has them, and TensorFlow as it starts.

A golden file holds, under `tests/golden/`, the whole text that something must print. A test compares with it
by `golden("plan/two_clones.txt", text)`. After a change that is meant, `pytest --update-golden` writes into
the files what is printed now; read the difference before committing it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests import forked, workers
from tfdeploy import progress
from tfdeploy.runtime.start_tensorflow import without_scikit_learn

if TYPE_CHECKING:  # it imports TensorFlow, which is not wanted yet
    from tests.shared_traces import SharedTraces

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
LONGEST = (
    "runtime/verify/test_replicas.py",
    "cli/test_verify.py",
    "runtime/test_watchdog.py",
    "runtime/cluster/test_faults.py",
    "runtime/train/test_run.py",
    "runtime/cluster/test_changing.py",
    "compiler/graph/test_many_clones.py",
    "runtime/train/test_course.py",
    "onramp/test_from_keras.py",
    "test_suggested_examples.py",
    "runtime/cluster/test_monitor.py",
    "runtime/trained/test_model_files.py",
    "cli/test_fuzz.py",
    "runtime/cluster/test_launch.py",
    "compiler/graph/variables/test_resume_placements.py",
    "compiler/graph/tower/network/test_applications.py",
    "runtime/train/test_sharded.py",
    "docs/test_sessions.py",
    "compiler/graph/workers/test_clusters.py",
    "lsp/test_damage.py",
    "zoo/test_zoo.py",
    "runtime/train/test_resumed_bits.py",
    "data/sources/test_faults.py",
    "cli/test_explain.py",
    "compiler/report/page/test_access.py",
    "cli/test_calibrate.py",
    "runtime/cluster/test_serve.py",
    "compiler/report/page/test_scopes.py",
)
"""The files that take longest in `make test` or in `make full`, the longest first.

Each process begins with one of the first files and goes on with another. Those that wait for other processes
most of their time, as many tests of clusters do, are apart.
"""

_IMPORTING = ExitStack()
_IMPORTING.enter_context(forked.to_be_forked())  # before the conftests of folders, which import TensorFlow
# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("tfdeploy", deadline=None)
settings.load_profile("tfdeploy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switches that rewrite golden files, and that keep byte code of the tests."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")
    parser.addoption("--keep-compiled", action="store_true", help="keep byte code of the tests in any case")


def pytest_configure() -> None:
    """Let signals reach the processes that tests start, also where a shell runs the tests in the background.

    Such a shell has interrupts ignored, as `nohup` has hang-ups, and what is ignored is inherited. What is
    said of things that take long is left out, since it would depend on the machine.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault(progress.VARIABLE, progress.NEVER)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Fork the processes that run tests, unless coverage is measured, which counts what each has imported."""
    _IMPORTING.close()
    if not config.pluginmanager.hasplugin("_cov"):
        _IMPORTING.enter_context(workers.forked_workers(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Let nobody look for garbage while tests are collected, and Keras start as in a command.

    All that is made meanwhile stays. With `--keep-compiled`, what Python makes of the tests is kept for the
    next time, even if it is told to keep nothing: rewriting assertions takes a third of the collection.
    """
    gc.disable()
    keeps_nothing = sys.dont_write_bytecode
    sys.dont_write_bytecode = keeps_nothing and not session.config.getoption("--keep-compiled")
    try:
        with without_scikit_learn():
            return (yield)
    finally:
        _IMPORTING.close()
        sys.dont_write_bytecode = keeps_nothing
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[object]:
    """Before the first test, fork what forks others: none of TensorFlow's threads is there yet."""
    forked.fork_tests_nursery()
    return (yield)


@pytest.hookimpl(tryfirst=True)  # before pytest itself leaves out what bears the marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first, so that none of them runs alone in the end.

    Of a family of cases, `@pytest.mark.family(every=4)`, every fourth is run by `make test`, from the first
    on. The others get the marker `full`.
    """
    met: Counter[str] = Counter()
    for item in items:
        if family := item.get_closest_marker("family"):
            name = item.nodeid.split("[", 1)[0]
            if met[name] % family.kwargs["every"]:
                item.add_marker(pytest.mark.full)
            met[name] += 1
    places = {str(TESTS / name): place for place, name in enumerate(LONGEST)}
    assert all(map(os.path.exists, places)), "a file of LONGEST has gone"
    items.sort(key=lambda item: places.get(str(item.path), len(places)))


@pytest.fixture(autouse=True)
def _as_it_starts() -> Iterator[None]:
    """Take deterministic ops back, which TensorFlow keeps on for the whole process once a run has wanted any.

    Graphs have other ops under them, and none that tell the time. The objects of TensorFlow, which stay, are
    taken from the garbage collector, which would look at them again and again.
    """
    yield
    if "tensorflow" in sys.modules:
        from tensorflow.python.framework.config import disable_op_determinism

        disable_op_determinism()
        _freeze()


@pytest.fixture(scope="module", autouse=True)
def _shared_traces() -> Iterator[SharedTraces | None]:
    """Let the tests of a process share traced towers, which take half of the time of a compilation."""
    if "compiler.graph.build" not in sys.modules:
        yield None
        return
    from compiler.graph import build

    shared = _traces_of_this_process()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "Traces", shared)
        yield shared


@cache
def _traces_of_this_process() -> SharedTraces:
    from tests.shared_traces import SharedTraces

    return SharedTraces()


@pytest.fixture
def monkeypatch(_shared_traces: SharedTraces | None) -> Iterator[pytest.MonkeyPatch]:
    """Return what pytest has under this name; a test that has replaced code by it traces by itself."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if _shared_traces is not None:
            replace = patch.setattr

            def apart(*arguments: Any, **options: Any) -> None:
                stack.enter_context(_shared_traces.not_shared())
                replace(*arguments, **options)

            patch.setattr = apart  # type: ignore[method-assign]
        yield patch


@cache
def _freeze() -> None:
    """Take all objects that there are from the garbage collector, once in a process.

    Whether that has been done is not asked of the collector, which would count the frozen objects one by one:
    50 ms after each test.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def six_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process have six cores, and no wish of the environment."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)


@pytest.fixture
def forked_tasks() -> Iterator[None]:
    """Fork the tasks that a launcher in this process starts; one in a forked process does so by itself."""
    from tfdeploy.runtime.launch import task_processes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_processes, "subprocess", forked.AS_SUBPROCESS)
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with a golden file, or writes it under `--update-golden`."""
    update = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        assert path.is_file(), f"no golden file {name}: run pytest --update-golden, and read it"
        assert text == path.read_bytes().decode()

    return compare
